package web_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/internal/podctl/web"
	"github.com/podstream/podstream/internal/podctl/web/board"
	"github.com/podstream/podstream/internal/podctl/web/door"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/webtest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// attack is an attack on the page.
type attack struct {
	name string
	// checks are the faults that leave out the checks which stop it. Each one alone stops it.
	checks []failpoint.Name
	// refused is a part of what answers.
	refused string
	// config changes the configuration. Nil: none.
	config func(*testing.T, *web.Config)
	// run attacks, and returns what came of it. success reports whether the attacker got what it wanted.
	run func(*testing.T, *target) (answer string, success bool)
}

// attacks are the attacks. They are refused (TestAttacks), and each succeeds without its checks (TestFaultAttacks).
var attacks = []attack{
	{
		name: "CSRF: a page of another site posts to the API", checks: []failpoint.Name{failpoint.WebSite, failpoint.WebOrigin, failpoint.WebToken},
		refused: "403 site", run: post(map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}),
	},
	{
		name: "a page of another port of this machine posts to the API", checks: []failpoint.Name{failpoint.WebSite, failpoint.WebOrigin, failpoint.WebToken},
		refused: "403 site", run: post(map[string]string{"Origin": "http://127.0.0.1:8000", "Sec-Fetch-Site": "same-site"}),
	},
	{
		name: "the same by a browser without Sec-Fetch-Site", checks: []failpoint.Name{failpoint.WebSite, failpoint.WebOrigin, failpoint.WebToken},
		refused: "403 site", run: post(map[string]string{"Origin": "http://localhost:8000", "Sec-Fetch-Site": "-"}),
	},
	{
		name:    "DNS rebinding: the attacker's name leads to this page",
		checks:  []failpoint.Name{failpoint.WebHost, failpoint.WebOrigin, failpoint.WebToken},
		refused: "421 host", run: post(map[string]string{"Host": "evil.example", "Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}),
	},
	{
		name: "DNS rebinding reads the page itself", checks: []failpoint.Name{failpoint.WebHost},
		refused: "421 host", run: get("/", map[string]string{"Host": "evil.example", "Sec-Fetch-Site": "none", "Sec-Fetch-Dest": "document"}),
	},
	{
		name: "another user of this machine calls without a token", checks: []failpoint.Name{failpoint.WebToken},
		refused: "401 token", run: post(nil),
	},
	{
		name: "the same with a token that it made up", checks: []failpoint.Name{failpoint.WebToken},
		refused: "401 token", run: post(map[string]string{"Authorization": "Bearer AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}),
	},
	{
		name: "another user of this machine reads the file", checks: []failpoint.Name{failpoint.WebFileMode},
		refused: "permission denied", run: readFile,
	},
	{
		name: "another user of this machine reads the command lines", checks: []failpoint.Name{failpoint.WebOpenAddress},
		refused: "no token in the command line", config: openWith, run: readCommandLine,
	},
	{
		name: "a ticket is used again", checks: []failpoint.Name{failpoint.WebTicketOnce},
		refused: "the link was used before", run: useAgain,
	},
	{
		name: "a ticket is used after a minute", checks: []failpoint.Name{failpoint.WebTicketTime},
		refused: "the link has expired", config: steppingClock, run: useLate,
	},
	{
		name: "a page shows this one in a frame", checks: []failpoint.Name{failpoint.WebDest, failpoint.WebFrameHeaders},
		refused: "403 dest", run: frame,
	},
	{
		name: "a page loads this one's script", checks: []failpoint.Name{failpoint.WebSite},
		refused: "403 site", run: get("/app.js", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "script"}),
	},
	{
		name: "a method that the page doesn't use", checks: []failpoint.Name{failpoint.WebMethod},
		refused: "405 method", run: request(http.MethodPut, "/", map[string]string{"Sec-Fetch-Site": "none"}),
	},
	{
		name:   "a WebSocket of another origin, with a token and a confirmation that it has learned",
		checks: []failpoint.Name{failpoint.WebOrigin}, refused: "403", config: allowExec, run: socket("http://127.0.0.1:8000", true, true),
	},
	{
		name: "a WebSocket without a token", checks: []failpoint.Name{failpoint.WebToken},
		refused: "the session is over", config: allowExec, run: socket("", false, true),
	},
	{
		name: "a command that the user hasn't confirmed", checks: []failpoint.Name{failpoint.WebConfirmation},
		refused: "it isn't confirmed", config: allowExec, run: socket("", true, false),
	},
	{
		name: "a command although exec isn't allowed", checks: []failpoint.Name{failpoint.WebReadOnly},
		refused: "podctl web is read-only", run: socket("", true, true),
	},
	{
		name: "a restart although it isn't allowed", checks: []failpoint.Name{failpoint.WebReadOnly},
		refused: "podctl web is read-only", config: restartable, run: restart,
	},
	{
		name: "a host of the network connects", checks: []failpoint.Name{failpoint.WebAnyAddress},
		refused: "connection refused", run: connectFromAfar,
	},
	{
		name: "a body of 6 MiB", checks: []failpoint.Name{failpoint.WebBody},
		refused: "413 body", run: largeBody,
	},
	{
		name: "a header of 64 KiB", checks: []failpoint.Name{failpoint.WebHeaderSize},
		refused: "431", run: largeHeader,
	},
	{
		name: "slowloris: a header that never ends", checks: []failpoint.Name{failpoint.WebHeaderTime},
		refused: "closed", run: slowHeader,
	},
	{
		name: "more connections than are allowed keep the page out", checks: []failpoint.Name{failpoint.WebConnections},
		refused: "the oldest connection was closed", run: manyConnections,
	},
}

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

// readFile reads the file with the link as the user nobody.
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
	const nobody = 65534
	cat.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
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

func allowExec(_ *testing.T, cfg *web.Config) { cfg.AllowExec = true }

// socket runs a command by a WebSocket. It succeeds if the command runs.
func socket(origin string, withToken, confirmed bool) func(*testing.T, *target) (string, bool) {
	return func(t *testing.T, x *target) (string, bool) {
		t.Helper()
		x.podexecd.ExecFunc = func(_ *podexecv1.ExecStart, s grpc.BidiStreamingServer[podexecv1.ExecRequest, podexecv1.ExecResponse]) error {
			return s.Send(&podexecv1.ExecResponse{Message: &podexecv1.ExecResponse_ExitCode{ExitCode: 42}})
		}
		session, client := x.open()
		action := x.execAction("web")
		open := &podwebv1.ExecOpen{Action: action}
		if withToken {
			open.Session = session
		}
		if confirmed {
			r, err := client.Prepare(t.Context(), &podwebv1.PrepareRequest{Action: &podwebv1.Action{Action: &podwebv1.Action_Exec{Exec: action}}})
			if err == nil {
				open.Confirmation = r.GetConfirmation()
			}
		}
		if origin == "" {
			return runCommand(t, x.host(), "http://"+x.host(), open)
		}
		return runCommand(t, x.host(), origin, open)
	}
}

// execAction returns a command in a pod that runs.
func (x *target) execAction(name string) *podwebv1.ExecAction {
	x.t.Helper()
	x.runPod(name)
	return &podwebv1.ExecAction{PodKey: board.Key("pod", podctltest.UID(name)), Command: []string{"date"}}
}

// runPod has podexecd run a pod, and waits until podctl web has it.
func (x *target) runPod(name string) {
	x.t.Helper()
	x.podexecd.Put(podctltest.Observed(x.t, "default", name, &corev1.PodStatus{
		Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{podctltest.Running("web")},
	}))
	_, client := x.open()
	webtest.Await(x.t, "the pod", nil, func() bool {
		_, err := client.GetPod(x.t.Context(), &podwebv1.GetPodRequest{Key: board.Key("pod", podctltest.UID(name))})
		return err == nil
	})
}

func runCommand(t *testing.T, host, origin string, open *podwebv1.ExecOpen) (string, bool) {
	t.Helper()
	dialer := websocket.Dialer{Subprotocols: []string{"podweb.exec.v1"}, HandshakeTimeout: webtest.Deadline}
	ws, resp, err := dialer.DialContext(t.Context(), "ws://"+host+"/exec", http.Header{"Origin": {origin}, "Sec-Fetch-Site": {"same-origin"}})
	if resp != nil {
		defer resp.Body.Close()
	}
	if err != nil {
		if resp == nil {
			return err.Error(), false
		}
		return strconv.Itoa(resp.StatusCode), false
	}
	defer ws.Close()
	data, err := proto.Marshal(&podwebv1.ExecClientMessage{Message: &podwebv1.ExecClientMessage_Open{Open: open}})
	if err == nil {
		err = ws.WriteMessage(websocket.BinaryMessage, data)
	}
	if err != nil {
		t.Fatal(err)
	}
	for {
		_, data, err := ws.ReadMessage()
		if err != nil {
			return err.Error(), false
		}
		m := &podwebv1.ExecServerMessage{}
		if err := proto.Unmarshal(data, m); err != nil {
			t.Fatal(err)
		}
		if end := m.GetEnd(); end != nil {
			return end.GetError(), end.GetError() == "" && end.GetExitCode() == 42
		}
	}
}

func restartable(_ *testing.T, cfg *web.Config) {
	cfg.Actions.Restart = func(context.Context, *podconfigv1.PodRef, string) ([]string, error) { return []string{"done"}, nil }
}

func restart(t *testing.T, x *target) (string, bool) {
	t.Helper()
	x.runPod("web")
	_, client := x.open()
	action := &podwebv1.Action{Action: &podwebv1.Action_Restart{Restart: &podwebv1.RestartAction{PodKey: board.Key("pod", podctltest.UID("web"))}}}
	r, err := client.Prepare(t.Context(), &podwebv1.PrepareRequest{Action: action})
	if err != nil {
		return err.Error(), false
	}
	done, err := client.Act(t.Context(), &podwebv1.ActRequest{Action: action, Confirmation: r.GetConfirmation()})
	if err != nil {
		return err.Error(), false
	}
	return strings.Join(done.GetLines(), " "), true
}

// connectFromAfar connects to an address of the machine that isn't the loopback's 127.0.0.1.
func connectFromAfar(t *testing.T, x *target) (string, bool) {
	t.Helper()
	_, port, _ := net.SplitHostPort(x.host())
	// Each address of 127.0.0.0/8 is this machine's, and stands for one of the network here.
	conn, err := net.DialTimeout("tcp4", net.JoinHostPort("127.1.2.3", port), webtest.Deadline)
	if err != nil {
		return err.Error(), false
	}
	_ = conn.Close()
	return "connected", true
}

func largeHeader(t *testing.T, x *target) (string, bool) {
	t.Helper()
	answer, ok := send(t, x, http.MethodGet, "/", map[string]string{"X-Padding": strings.Repeat("x", 64<<10), "Sec-Fetch-Site": "none"}, nil)
	if !ok && !strings.HasPrefix(answer, "431") && (strings.Contains(answer, "reset") || strings.Contains(answer, "broken pipe")) {
		answer = "431, before it was sent: " + answer
	}
	return answer, ok
}

func largeBody(t *testing.T, x *target) (string, bool) {
	t.Helper()
	session, _ := x.open()
	body := `{"content":"` + strings.Repeat("A", 6<<20) + `"}`
	answer, _ := send(t, x, http.MethodPost, "/podweb.v1.WebService/KeepAlive", map[string]string{"Authorization": "Bearer " + session}, strings.NewReader(body))
	// Behind the door, Connect has a bound of its own.
	return answer, !strings.HasPrefix(answer, "413")
}

// slowHeader begins a request, and waits until the server closes the connection. It succeeds if the server waits longer than it
// should.
func slowHeader(t *testing.T, x *target) (string, bool) {
	t.Helper()
	conn, err := net.Dial("tcp4", x.host())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+x.host()+"\r\nX-Slow: "); err != nil {
		t.Fatal(err)
	}
	patience := webtest.Deadline
	if failpoint.Active(failpoint.WebHeaderTime) {
		patience = 7 * time.Second // The server waits for 5 s.
	}
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	_, err = bufio.NewReader(conn).ReadString(0)
	if e, ok := err.(net.Error); ok && e.Timeout() { //nolint:errorlint // A connection's own error.
		return "open", true
	}
	return "closed", false
}

// manyConnections opens silent connections, and looks whether the first one is closed.
func manyConnections(t *testing.T, x *target) (string, bool) {
	t.Helper()
	first, err := net.Dial("tcp4", x.host())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	for range 64 {
		conn, err := net.Dial("tcp4", x.host())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() //nolint:gocritic // All at the end.
	}
	// The page is served in any case.
	if answer, ok := send(t, x, http.MethodGet, "/", map[string]string{"Sec-Fetch-Site": "none", "Sec-Fetch-Dest": "document"}, nil); !ok {
		t.Errorf("the page isn't served: %s", answer)
	}
	patience := webtest.Deadline
	if failpoint.Active(failpoint.WebConnections) {
		patience = time.Second
	}
	_ = first.SetReadDeadline(time.Now().Add(patience))
	if _, err := first.Read(make([]byte, 1)); err != nil {
		if e, ok := err.(net.Error); ok && e.Timeout() { //nolint:errorlint // As above.
			return "open", true
		}
	}
	return "the oldest connection was closed", false
}
