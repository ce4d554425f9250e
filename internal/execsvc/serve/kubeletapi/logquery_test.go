package kubeletapi

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestParseLogQuery(t *testing.T) {
	for query, want := range map[string]string{
		"query=kubelet":                                       "--unit=kubelet",
		"query=kubelet&query=containerd":                      "--unit=kubelet --unit=containerd",
		"query=kubelet&sinceTime=2026-01-02T03:04:05%2B02:00": "--since=2026-01-02 01:04:05 --unit=kubelet",
		"query=kubelet&untilTime=2026-01-02T03:04:05Z":        "--until=2026-01-02 03:04:05 --unit=kubelet",
		"query=kubelet&tailLines=10&pattern=a.*b&boot=-1":     "--lines=10 --unit=kubelet --grep=a.*b --boot=-1",
		"query=kubelet&pattern=--file%3D/etc/shadow":          "--unit=kubelet --grep=--file=/etc/shadow",
		"query=--file":                      "--unit=--file",
		"query=/syslog":                     "file /syslog",
		"query=pods%5Cx.log":                "file pods/x.log",
		"query=":                            "unreadable",
		"query=%20":                         "unreadable",
		"query=kubelet&sinceTime=yesterday": "unreadable",
		"query=kubelet&tailLines=x":         "unreadable",
		"query=kubelet&boot=x":              "unreadable",
		"tailLines=10":                      "unacceptable",
		"query=a/b&query=c/d":               "unacceptable",
		"query=a/b&query=kubelet":           "unacceptable",
		"query=a/b&tailLines=1":             "unacceptable",
		"query=kubelet&tailLines=-1":        "unacceptable",
		"query=kubelet&tailLines=100001":    "unacceptable",
		"query=kubelet&boot=1":              "unacceptable",
		"query=kubelet&pattern=%28":         "unacceptable",
		"query=kubelet&pattern=" + strings.Repeat("a", 1025): "unacceptable",
		"query=kube%20let":                        "unacceptable",
		"query=kube;let":                          "unreadable",
		"query=kube%3Blet":                        "unacceptable",
		"query=%24%28reboot%29":                   "unacceptable",
		"query=kubelet%00":                        "unacceptable",
		"query=kubelet%0a":                        "unacceptable",
		"query=" + strings.Repeat("a", 257):       "unacceptable",
		"query=a&query=b&query=c&query=d&query=e": "unacceptable",
		"query=a&sinceTime=2026-01-02T00:00:00Z&untilTime=2026-01-01T00:00:00Z": "unacceptable",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			values = url.Values{"query": {""}}
		}
		q, unreadable, unacceptable := parseLogQuery(values)
		var got string
		switch {
		case unreadable != nil:
			got = "unreadable"
		case unacceptable != nil:
			got = "unacceptable"
		case q.file != "":
			got = "file " + q.file
		default:
			got = strings.Join(q.journalArgs(q.services)[3:], " ")
		}
		if got != want {
			t.Errorf("%s: %q; want %q (%v, %v)", query, got, want, unreadable, unacceptable)
		}
	}
}

func TestLogQueries(t *testing.T) {
	dir := logTree(t)
	journalctl := filepath.Join(t.TempDir(), "journalctl")
	script := "#!/bin/sh\nif [ \"$1\" = --field ]; then echo ssh.service; echo init.scope; exit; fi\nfor a; do echo \"arg $a\"; done\n"
	if err := os.WriteFile(journalctl, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	n := start(t, func(c *Config) {
		c.Debug.SystemLogs, c.Debug.SystemLogQuery, c.Debug.LogDir, c.Debug.Journalctl = true, true, dir, journalctl
	})
	fixed := "arg --utc\narg --no-pager\narg --output=short-precise\n"
	for _, tc := range []struct{ path, want string }{
		{"/logs/?query=ssh", "200 " + fixed + "arg --unit=ssh\n"},
		{"/logs/?query=init.scope&tailLines=3", "200 " + fixed + "arg --lines=3\narg --unit=init.scope\n"},
		{"/logs/?query=kubelet", "200 from a file\n"},
		{"/logs/?query=crio", "200 from its directory\n"},
		{"/logs/?query=ssh&query=syslog", "200 " + fixed + "arg --unit=ssh\nfrom syslog\n"},
		{"/logs/?query=nothing", "200 \nlog not found for nothing\n"},
		{"/logs/?query=kubelet&tailLines=3", "200 \noptions present and query resolved to log files for [kubelet]\ntry without specifying options\n"},
		{"/logs/?query=..", "200 \nerror getting log for ..: openat ..: path escapes from parent\n"},
		{"/logs/?query=/syslog", "200 from syslog\n"},
		{"/logs/?query=pods/ns_web_1/main/0.log", "200 from main\n"},
		{"/logs/?query=../secret", "406 query: Invalid value: \"../secret\": it isn't a file in the directory of logs\n"},
		{"/logs/?query=/out", "403 403 Forbidden\n"},
		{"/logs/?query=ssh&boot=x", "400 boot: Invalid value: \"x\": strconv.Atoi: parsing \"x\": invalid syntax\n"},
		{"/logs/?query=ssh&boot=1", "406 boot: Invalid value: 1: must be less than 1\n"},
		{"/logs/pods/?query=ssh", "406 path not allowed in query mode\n"},
		{"/logs/syslog", "200 from syslog\n"},
	} {
		status, text := n.get(tc.path)
		if diff := cmp.Diff(tc.want, fmt.Sprint(status, " ", text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.path, diff)
		}
	}

	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+n.address+"/logs/?query=crio", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip")
	resp, err := n.admin().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	unpacked, err := gzip.NewReader(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(unpacked); err != nil || string(text) != "from its directory\n" {
		t.Errorf("compressed: %q, %v", text, err)
	}
}

// Queries of a journal that hangs are limited in number, and end with the caller's connection.
func TestJournalHangs(t *testing.T) {
	dir := t.TempDir()
	began := filepath.Join(dir, "began")
	if err := unix.Mkfifo(began, 0o600); err != nil {
		t.Fatal(err)
	}
	journalctl := filepath.Join(dir, "journalctl")
	if err := os.WriteFile(journalctl, []byte("#!/bin/sh\necho x > "+began+"\nexec sleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	n := start(t, func(c *Config) {
		c.Debug.SystemLogs, c.Debug.SystemLogQuery, c.Debug.LogDir, c.Debug.Journalctl = true, true, dir, journalctl
	})
	client := n.admin()
	ctx, cancel := contextOf(t)
	ended := make(chan error, maxQueries)
	for range maxQueries {
		go func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+n.address+"/logs/?query=ssh", nil)
			if err == nil {
				var resp *http.Response
				if resp, err = client.Do(r); err == nil {
					_ = resp.Body.Close()
				}
			}
			ended <- err
		}()
		// The script blocks until its output is read.
		if _, err := os.ReadFile(began); err != nil {
			t.Fatal(err)
		}
	}
	if status, text := n.get("/logs/?query=ssh"); status != http.StatusTooManyRequests {
		t.Errorf("one more: %d %q; want 429", status, text)
	}
	cancel()
	for range maxQueries {
		if err := <-ended; err == nil {
			t.Error("a cancelled query succeeded")
		}
	}
	// The Server's end waits for the programs: each is killed because its caller has disconnected.
	n.end()
}
