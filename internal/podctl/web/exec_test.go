package web_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/internal/podctl/web"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/webtest"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// terminal is a WebSocket of the page.
type terminal struct {
	t  *testing.T
	ws *websocket.Conn
}

func dial(t *testing.T, x *target) *terminal {
	t.Helper()
	dialer := websocket.Dialer{Subprotocols: []string{"podweb.exec.v1"}, HandshakeTimeout: webtest.Deadline}
	ws, resp, err := dialer.DialContext(t.Context(), "ws://"+x.host()+"/exec", http.Header{"Origin": {"http://" + x.host()}})
	if err != nil {
		t.Fatalf("%v, %v", resp, err)
	}
	defer resp.Body.Close()
	if ws.Subprotocol() != "podweb.exec.v1" {
		t.Errorf("the protocol is %q", ws.Subprotocol())
	}
	t.Cleanup(func() { _ = ws.Close() })
	return &terminal{t, ws}
}

func (c *terminal) send(m *podwebv1.ExecClientMessage) {
	c.t.Helper()
	data, err := proto.Marshal(m)
	if err == nil {
		err = c.ws.WriteMessage(websocket.BinaryMessage, data)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// receive returns the next message in short.
func (c *terminal) receive() string {
	c.t.Helper()
	_, data, err := c.ws.ReadMessage()
	if err != nil {
		return err.Error()
	}
	m := &podwebv1.ExecServerMessage{}
	if err := proto.Unmarshal(data, m); err != nil {
		c.t.Fatal(err)
	}
	switch m := m.GetMessage().(type) {
	case *podwebv1.ExecServerMessage_Started:
		return "started " + m.Started.GetContainer()
	case *podwebv1.ExecServerMessage_Stdout:
		return "out " + string(m.Stdout)
	case *podwebv1.ExecServerMessage_Stderr:
		return "err " + string(m.Stderr)
	case *podwebv1.ExecServerMessage_End:
		return fmt.Sprintf("end %d %s", m.End.GetExitCode(), m.End.GetError())
	}
	return "nothing"
}

func (c *terminal) want(texts ...string) {
	c.t.Helper()
	for _, want := range texts {
		if got := c.receive(); got != want {
			c.t.Fatalf("the page gets %q; want %q", got, want)
		}
	}
}

// open sends the first message, with a confirmation.
func (c *terminal) open(x *target, action *podwebv1.ExecAction) {
	c.t.Helper()
	session, client := x.open()
	r, err := client.Prepare(c.t.Context(), &podwebv1.PrepareRequest{Action: &podwebv1.Action{Action: &podwebv1.Action_Exec{Exec: action}}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.send(&podwebv1.ExecClientMessage{Message: &podwebv1.ExecClientMessage_Open{Open: &podwebv1.ExecOpen{
		Session: session, Confirmation: r.GetConfirmation(), Action: action, Size: &podwebv1.TerminalSize{Width: 80, Height: 1 << 20},
	}}})
}

func stdin(text string) *podwebv1.ExecClientMessage {
	return &podwebv1.ExecClientMessage{Message: &podwebv1.ExecClientMessage_Stdin{Stdin: []byte(text)}}
}

// TestExec: a command gets its input, its terminal's size and the end of its input, and the page its output and exit code, byte for
// byte.
func TestExec(t *testing.T) {
	x := start(t, func(cfg *web.Config) { cfg.AllowExec = true })
	x.podexecd.ExecFunc = func(start *podexecv1.ExecStart, s grpc.BidiStreamingServer[podexecv1.ExecRequest, podexecv1.ExecResponse]) error {
		if start.GetRef().GetUid() != podctltest.UID("web") || !start.GetTty() || start.GetSize().GetWidth() != 80 || start.GetSize().GetHeight() != 1<<15 {
			return status.Errorf(codes.InvalidArgument, "the command is %v", start)
		}
		send := func(m *podexecv1.ExecResponse) { _ = s.Send(m) }
		send(&podexecv1.ExecResponse{Message: &podexecv1.ExecResponse_Defaulted{Defaulted: &podexecv1.DefaultedContainer{Name: "web"}}})
		for {
			m, err := s.Recv()
			switch {
			case err != nil:
				return err
			case m.GetStdin() != nil:
				send(&podexecv1.ExecResponse{Message: &podexecv1.ExecResponse_Stdout{Stdout: append([]byte("> "), m.GetStdin()...)}})
			case m.GetResize() != nil:
				send(&podexecv1.ExecResponse{Message: &podexecv1.ExecResponse_Stderr{Stderr: fmt.Append(nil, m.GetResize().GetWidth())}})
			case m.GetStdinClosed():
				send(&podexecv1.ExecResponse{Message: &podexecv1.ExecResponse_ExitCode{ExitCode: 3}})
				return nil
			}
		}
	}
	action := x.execAction("web")
	action.Tty = true
	c := dial(t, x)
	c.open(x, action)
	c.want("started ", "started web")
	c.send(stdin("a\x1b[31m\xff"))
	c.want("out > a\x1b[31m\xff")
	c.send(&podwebv1.ExecClientMessage{Message: &podwebv1.ExecClientMessage_Resize{Resize: &podwebv1.TerminalSize{Width: 132, Height: 40}}})
	c.want("err 132")
	c.send(&podwebv1.ExecClientMessage{Message: &podwebv1.ExecClientMessage_StdinClosed{StdinClosed: true}})
	c.want("end 3 ", "websocket: close 1000 (normal)")
}

// TestExecEnds: a page that goes away ends the command, and podexecd's refusal reaches the page.
func TestExecEnds(t *testing.T) {
	x := start(t, func(cfg *web.Config) { cfg.AllowExec = true })
	begun, gone := make(chan struct{}), make(chan struct{})
	x.podexecd.ExecFunc = func(start *podexecv1.ExecStart, s grpc.BidiStreamingServer[podexecv1.ExecRequest, podexecv1.ExecResponse]) error {
		if start.GetCommand()[0] == "refuse" {
			return status.Error(codes.PermissionDenied, "you are no operator")
		}
		close(begun)
		for {
			if _, err := s.Recv(); err != nil {
				close(gone)
				return err
			}
		}
	}
	action := x.execAction("web")
	c := dial(t, x)
	c.open(x, action)
	c.want("started ")
	// The page is told before podexecd is asked. If it left at once, podexecd would perhaps not be asked.
	await(t, "podexecd is asked", begun)
	_ = c.ws.Close()
	await(t, "the exec ends at podexecd", gone)

	action.Command = []string{"refuse"}
	c = dial(t, x)
	c.open(x, action)
	c.want("started ", "end 0 rpc error: code = PermissionDenied desc = you are no operator", "websocket: close 1000 (normal)")
}

// TestExecMistakes: a page that breaks the protocol gets an error or nothing, and never a command.
func TestExecMistakes(t *testing.T) {
	x := start(t, func(cfg *web.Config) { cfg.AllowExec = true })
	x.podexecd.ExecFunc = func(*podexecv1.ExecStart, grpc.BidiStreamingServer[podexecv1.ExecRequest, podexecv1.ExecResponse]) error {
		t.Error("a command is run")
		return errors.New("no")
	}
	for name, tc := range map[string]struct {
		kind int
		data []byte
		want string
	}{
		"text":          {websocket.TextMessage, []byte("{}"), "end 0 the first message: it isn't a binary message"},
		"no message":    {websocket.BinaryMessage, []byte("\xff\xff"), "end 0 the first message: it isn't a message of podweb.v1: proto:"},
		"no command":    {websocket.BinaryMessage, nil, "end 0 the first message has to name the command"},
		"a large one":   {websocket.BinaryMessage, make([]byte, 65<<10), "websocket: close 1009 (message too big)"},
		"stdin at once": {websocket.BinaryMessage, mustMarshal(t, stdin("x")), "end 0 the first message has to name the command"},
	} {
		c := dial(t, x)
		err := c.ws.WriteMessage(tc.kind, tc.data)
		if name == "a large one" {
			// The server doesn't read all of it, so the connection may be reset before the answer arrives.
			if got := c.receive(); got != tc.want && !strings.Contains(got, "reset by peer") {
				t.Errorf("%s: the page gets %q; want %q, or a closed connection", name, got, tc.want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := c.receive(); !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: the page gets %q; want %q", name, got, tc.want)
		}
		c.want("websocket: close 1000 (normal)")
	}
	// A session without a confirmation gets no further.
	session, _ := x.open()
	c := dial(t, x)
	c.send(&podwebv1.ExecClientMessage{Message: &podwebv1.ExecClientMessage_Open{Open: &podwebv1.ExecOpen{Session: session, Action: x.execAction("web")}}})
	if got := c.receive(); !strings.HasPrefix(got, "end 0 ") || !strings.Contains(got, "confirmed") {
		t.Errorf("without a confirmation, the page gets %q", got)
	}
}

// TestSilentSockets: connections that show no token are bounded, and end.
func TestSilentSockets(t *testing.T) {
	x := start(t, func(cfg *web.Config) { cfg.AllowExec = true })
	var silent []*terminal
	for range 8 {
		silent = append(silent, dial(t, x))
	}
	_, resp, err := new(websocket.Dialer).DialContext(t.Context(), "ws://"+x.host()+"/exec", http.Header{"Origin": {"http://" + x.host()}})
	if err == nil || resp == nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a ninth silent connection: %v, %v; want that it is refused", resp, err)
	} else {
		_ = resp.Body.Close()
	}
	for _, c := range silent {
		if got := c.receive(); !strings.HasPrefix(got, "end 0 the first message: ") {
			t.Errorf("a silent connection gets %q", got)
		}
	}
	// Their places are free again.
	webtest.Await(t, "a place", nil, func() bool {
		dialer := websocket.Dialer{HandshakeTimeout: webtest.Deadline}
		ws, resp, err := dialer.DialContext(t.Context(), "ws://"+x.host()+"/exec", http.Header{"Origin": {"http://" + x.host()}})
		if resp != nil {
			_ = resp.Body.Close()
		}
		if err == nil {
			_ = ws.Close()
		}
		return err == nil
	})
}

func mustMarshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// await waits until the channel is closed, and fails the test if that takes more than a minute.
func await(t *testing.T, what string, closed <-chan struct{}) {
	t.Helper()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatalf("timed out: %s", what)
	}
}
