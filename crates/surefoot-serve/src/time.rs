//! Times as people and programs read them.

use crate::clock::Time;

const DAY: i64 = 86_400_000;

/// A time as RFC 3339 writes it, in UTC: `2026-01-31T12:00:00.000Z`.
pub(crate) fn written(time: Time) -> String {
    let (days, rest) = (time.div_euclid(DAY), time.rem_euclid(DAY));
    // Years that begin in March end with the leap day; an era of 400 of them has the same number of days.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + 400 * era + i64::from(month <= 2);
    let (seconds, thousandths) = (rest / 1000, rest % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if !(0..10_000).contains(&year) {
        return format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}.{thousandths:03}Z");
    }
    // By hand, since every decision has one.
    let mut text = String::with_capacity(24);
    let parts = [(year, 4, '-'), (month, 2, '-'), (date, 2, 'T'), (hour, 2, ':'), (minute, 2, ':'), (second, 2, '.')];
    for (value, digits, after) in parts.into_iter().chain([(thousandths, 3, 'Z')]) {
        text.extend((0..digits).rev().map(|i| char::from(b'0' + (value / 10_i64.pow(i) % 10) as u8)));
        text.push(after);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        // As `date --utc --date=@SECONDS` has them.
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_400, "2000-02-29T00:00:00"),
            (951_868_799, "2000-02-29T23:59:59"),
            (4_107_542_400, "2100-03-01T00:00:00"),
            (1_793_882_096, "2026-11-05T12:34:56"),
            (-1, "1969-12-31T23:59:59"),
            (253_402_300_799, "9999-12-31T23:59:59"),
            (253_402_300_800, "10000-01-01T00:00:00"),
        ] {
            assert_eq!(written(seconds * 1000 + 7), format!("{text}.007Z"));
        }
    }
}
