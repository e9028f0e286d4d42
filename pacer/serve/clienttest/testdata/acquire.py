"""Acquires, and calls by itself, until the time is over, and prints the statuses of the answers."""
import http.client, json, sys, time

api, upstream, path, seconds = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
pacer = http.client.HTTPConnection(api, timeout=90)
conn = http.client.HTTPConnection(upstream, timeout=90)


def ask(what, body):
    pacer.request("POST", "/v1/" + what, json.dumps(body), {"Content-Type": "application/json"})
    answer = pacer.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise SystemExit(f"{what}: {body}")
    return json.loads(body)


end = time.monotonic() + seconds
while time.monotonic() < end:
    slot = ask("acquire", {"upstream": "zendesk"})
    conn.request("GET", path, headers={"Authorization": "Basic c3luY0BleGFtcGxlLmNvbS90b2tlbjpleGFtcGxl"})
    answer = conn.getresponse()
    answer.read()
    print(answer.status)
    ask("report", {"reservation": slot["reservation"], "status": answer.status, "headers": dict(answer.getheaders())})
    ask("release", {"reservation": slot["reservation"]})
