use super::*;

const SHOP: &str = r#"
listen = "127.0.0.1:9000"

[[key]]
name = "web"
roles = ["decide", "reward"]
sha256 = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"

[[loop]]
name = "shop"
actions = ["red", "green", "blue"]
features = [
    { name = "age", kind = "number", mean = 40, scale = 10 },
    { name = "device", kind = "category", values = ["phone", "desktop"] },
    { name = "city", kind = "hashed", bits = 4 },
]
reward = { range = [0, 5], window = "30m", default = 1, aggregation = "sum" }
round = { records = 1000 }
gate = "improvement"
"#;

fn parsed(text: &str) -> Result<Rules> {
    ServerConfig::parse("shop.toml", text)?.loops[0].resolve("shop.toml").map(|(rules, _)| rules)
}

fn refused(from: &str, to: &str) -> String {
    assert!(SHOP.contains(from), "{from}");
    parsed(&SHOP.replace(from, to)).unwrap_err().to_string()
}

#[test]
fn a_file_of_loops_becomes_rules() {
    let rules = parsed(SHOP).unwrap();
    assert_eq!((rules.actions.len(), rules.encoding.width()), (3, 2 + 2 + 16));
    assert_eq!((rules.window, rules.default, rules.aggregation), (Milliseconds(1_800_000), 1.0, Aggregation::Sum));
    assert_eq!(rules.round, RoundRule::Count { records: 1000 });
    let text = serde_json::to_string(&rules).unwrap();
    assert_eq!(serde_json::from_str::<Rules>(&text).unwrap(), rules);
    let clock = parsed(&SHOP.replace("records = 1000", "every = \"1d\", at_least = 50")).unwrap();
    assert_eq!(clock.round, RoundRule::Clock { every: Milliseconds(86_400_000), at_least: 50 });
    let (setting, stored, given) = rules.difference(&clock).unwrap();
    assert_eq!((setting.as_str(), stored.as_str()), ("round", "{\"records\":1000}"));
    assert_eq!(given, "{\"at_least\":50,\"every\":\"1d\"}");
    assert!(rules.difference(&rules).is_none());
}

#[test]
fn what_does_not_fit_is_refused_with_what_is_allowed() {
    for (from, to, said) in [
        ("name = \"shop\"", "name = \"a/b\"", "name should be 1 to 64 letters, digits, - or _, but is \"a/b\""),
        ("default = 1", "default = 6", "default should be within the reward range, 0 to 5, but is 6"),
        ("range = [0, 5]", "range = [5, 0]", "the reward range should be finite with lo < hi, but is [5, 0]"),
        ("30m", "half an hour", "a duration should be a whole number with ms, s, m, h or d"),
        ("records = 1000", "records = 1", "round should be from 2 to 100000000 decisions, but is 1"),
        ("\"improvement\"", "\"hope\"", "gate should be"),
        (
            "gate = ",
            "retention = \"30m\"\ngate = ",
            "retention should be longer than the reward window, 30m, but is 30m",
        ),
        ("[\"red\", \"green\", \"blue\"]", "[\"red\"]", "actions should be at least 2 different names"),
        ("\"age\"", "\"reward\"", "a feature should not be called reward"),
        ("\"age\"", "\"city\"", "the names of features should differ, but city occurs twice"),
        ("scale = 10", "scale = 0", "age should have a finite mean and a scale above 0"),
        ("gate = ", "gates = ", "unknown field `gates`"),
        (
            "roles = [\"decide\", \"reward\"]",
            "roles = []",
            "roles should be at least one of decide, reward, read, admin",
        ),
        ("[\"decide\", \"reward\"]", "[\"root\"]", "unknown variant `root`"),
    ] {
        let found = refused(from, to);
        assert!(found.contains(said) && found.starts_with("shop.toml"), "{found}\n  should contain {said}");
    }
    let twice = format!("{SHOP}{}", &SHOP[SHOP.find("[[loop]]").unwrap()..]);
    let said = ServerConfig::parse("shop.toml", &twice).unwrap_err().to_string();
    assert_eq!(said, "shop.toml: name should be different for each loop, but is \"shop\" twice");
    assert!(ServerConfig::parse("x", "").unwrap_err().to_string().contains("at least one loop"));
}

#[test]
fn durations_are_written_as_they_are_read() {
    for text in ["0s", "500ms", "90s", "15m", "1h", "7d", "1500ms"] {
        assert_eq!(text.parse::<Milliseconds>().unwrap().to_string(), text);
    }
    for text in ["", "5", "-1s", "1.5h", "99999999999999d", "s"] {
        assert!(text.parse::<Milliseconds>().is_err(), "{text}");
    }
}

#[test]
fn rewards_are_put_together_as_the_loop_says() {
    let rewards = [-3.0, -1.0, -2.0];
    let of = |aggregation: Aggregation| aggregation.of(&rewards);
    assert_eq!(of(Aggregation::First), Some(-3.0));
    assert_eq!(of(Aggregation::Last), Some(-2.0));
    assert_eq!(of(Aggregation::Sum), Some(-6.0));
    // Below 0, too: the default counts only where no reward came.
    assert_eq!(of(Aggregation::Max), Some(-1.0));
    assert_eq!(Aggregation::Max.of(&[]), None);
}
