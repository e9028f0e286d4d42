"""Calls through the proxy until the time is over, and prints the statuses of the answers."""
import http.client, sys, time

address, path, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
conn = http.client.HTTPConnection(address, timeout=90)
end = time.monotonic() + seconds
while time.monotonic() < end:
    conn.request("GET", path, headers={"Authorization": "Basic c3luY0BleGFtcGxlLmNvbS90b2tlbjpleGFtcGxl"})
    answer = conn.getresponse()
    answer.read()
    print(answer.status)
