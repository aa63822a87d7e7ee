#!/bin/sh
# A decision, its reward and what is proven, with curl alone: examples/curl.sh http://127.0.0.1:8080 shop
#
# The loop is that of `surefoot serve init examples/logs.csv --ignore 'pi_*' --out shop.toml`. SUREFOOT_KEY has the key, if any.
set -eu
server=${1:-http://127.0.0.1:8080}
loop=$server/v1/loops/${2:-shop}

# Every call: fail on an error, say what the server said, try again if it cannot now. The event id makes a retry the same event.
ask() {
    curl --silent --show-error --fail-with-body --max-time 10 --retry 5 --retry-connrefused \
        ${SUREFOOT_KEY:+--header "Authorization: Bearer $SUREFOOT_KEY"} "$@"
    echo
}
json='Content-Type: application/json'
lines='Content-Type: application/x-ndjson'

echo "== a decision, with the propensity to log"
event=visit-$$-$(date +%s)
ask --header "$json" --data "{\"event_id\": \"$event\", \"context\": {\"age\": 31, \"device\": \"phone\"}}" "$loop/decisions"

echo "== its reward, within the window of the loop"
ask --header "$json" --data '{"reward": 1}' "$loop/decisions/$event/rewards"

echo "== a batch: an object per line, an answer per line"
for i in 1 2 3; do
    printf '{"event_id": "%s-%s", "context": {"age": %s}}\n' "$event" "$i" "$((20 + i))"
done | ask --header "$lines" --data-binary @- "$loop/decisions"

echo "== where the loop stands"
ask "$loop"

echo "== what is proven; an empty list until the first round was learned from"
ask "$loop/certificates"
