package web_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/internal/podctl/web"
	"github.com/podstream/podstream/internal/podctl/web/door"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/webtest"
)

// send sends a request with headers. "-" means none, and "Host" is the host.
func send(t *testing.T, x *target, method, path string, headers map[string]string, body io.Reader) (answer string, ok bool) {
	t.Helper()
	host := x.host()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+host+path, body)
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Origin", "http://"+host)
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for name, value := range headers {
		switch {
		case name == "Host":
			r.Host = value
		case value == "-":
			r.Header.Del(name)
		default:
			r.Header.Set(name, value)
		}
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return err.Error(), false
	}
	defer resp.Body.Close()
	if cookies := resp.Header.Values("Set-Cookie"); len(cookies) > 0 {
		t.Errorf("the response sets the cookies %q", cookies)
	}
	text, _ := io.ReadAll(resp.Body)
	framed := ""
	if resp.Header.Get("X-Frame-Options") != "" || strings.Contains(resp.Header.Get("Content-Security-Policy"), "frame-ancestors") {
		framed = " (no frame)"
	}
	return fmt.Sprintf("%d %s%s", resp.StatusCode, text, framed), resp.StatusCode == http.StatusOK
}

// host returns the page's address.
func (x *target) host() string {
	x.t.Helper()
	_, rest, _ := strings.Cut(x.find("podctl web is at http://"), "http://")
	host, _, _ := strings.Cut(rest, ";")
	return host
}

func request(method, path string, headers map[string]string) func(*testing.T, *target) (string, bool) {
	return func(t *testing.T, x *target) (string, bool) {
		t.Helper()
		return send(t, x, method, path, headers, nil)
	}
}

func get(path string, headers map[string]string) func(*testing.T, *target) (string, bool) {
	return request(http.MethodGet, path, headers)
}

// post calls the API. It succeeds if it gets the session.
func post(headers map[string]string) func(*testing.T, *target) (string, bool) {
	return func(t *testing.T, x *target) (string, bool) {
		t.Helper()
		answer, ok := send(t, x, http.MethodPost, "/podweb.v1.WebService/GetSession", headers, strings.NewReader("{}"))
		return answer, ok && strings.Contains(answer, "podctlVersion")
	}
}

// readFile reads the file with the link as another user.
func readFile(t *testing.T, x *target) (string, bool) {
	t.Helper()
	if os.Geteuid() != 0 {
		info, err := os.Stat(x.path)
		if err != nil {
			t.Fatal(err)
		}
		return "permission denied by mode " + info.Mode().String(), info.Mode().Perm()&0o044 != 0
	}
	// The directory for the test must not be what stops it.
	if err := os.Chmod(filepath.Dir(filepath.Dir(x.path)), 0o755); err != nil { //nolint:gosec // As /run/user or /tmp would be.
		t.Fatal(err)
	}
	cat := exec.Command("cat", x.path)
	const other = 65534
	cat.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: other, Gid: other}}
	out, err := cat.CombinedOutput()
	return strings.ToLower(string(out)), err == nil && strings.Contains(string(out), "#token=")
}

// openWith has the page opened by a command that writes its arguments to a file.
func openWith(t *testing.T, cfg *web.Config) {
	t.Helper()
	cfg.Open = true
	cfg.OpenCommand = []string{"sh", "-c", `printf '%s' "$1" > "$0.part"; mv "$0.part" "$0"`, filepath.Join(cfg.HandoverDir, "argv")}
}

func readCommandLine(t *testing.T, x *target) (string, bool) {
	t.Helper()
	var argv []byte
	webtest.Await(t, "the browser", nil, func() bool {
		var err error
		argv, err = os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(x.path)), "argv"))
		return err == nil
	})
	own, err := os.ReadFile("/proc/self/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	text := string(argv) + string(own)
	if strings.Contains(text, "token=") {
		return text, true
	}
	return "no token in the command line: " + string(argv), false
}

// useAgain opens a session with a ticket that the user has used.
func useAgain(t *testing.T, x *target) (string, bool) {
	t.Helper()
	link := x.link()
	webtest.Open(t, link)
	return openSession(t, link)
}

func openSession(t *testing.T, link webtest.Link) (string, bool) {
	t.Helper()
	r, err := webtest.NewClient(t, link.Host, "").OpenSession(t.Context(), &podwebv1.OpenSessionRequest{Ticket: link.Ticket})
	if err != nil {
		return err.Error(), false
	}
	return "a session", r.GetSession() != ""
}

// steppingClock has the test step the time.
func steppingClock(t *testing.T, cfg *web.Config) {
	t.Helper()
	cfg.Clock = testingclock.NewFakeClock(podctltest.Noon)
}

func useLate(t *testing.T, x *target) (string, bool) {
	t.Helper()
	link := x.link()
	x.config.Clock.(*testingclock.FakeClock).Step(door.TicketTime) //nolint:forcetypeassert // steppingClock has set it.
	return openSession(t, link)
}

// frame asks for the page as a frame does. It succeeds if a browser would show it.
func frame(t *testing.T, x *target) (string, bool) {
	t.Helper()
	answer, ok := send(t, x, http.MethodGet, "/", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "iframe"}, nil)
	return answer, ok && !strings.Contains(answer, "(no frame)")
}
