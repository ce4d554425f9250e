package execsocket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/podctl/web/door"
	"github.com/podstream/podstream/internal/podctl/web/plaintext"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/upstream"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Protocol is the WebSocket's subprotocol.
const Protocol = "podweb.exec.v1"

// The bounds of connections.
const (
	// maxConnections is how many are open at once, and maxUnproven how many of them haven't shown a token.
	maxConnections, maxUnproven = 16, 8
	// openTime is how long the first message may take.
	openTime = 5 * time.Second
	// maxMessage is the size of a message of the page in bytes.
	maxMessage = 64 << 10
	// writeTime bounds a write, and pongTime the time without a sign of life. A ping is sent more often.
	writeTime = 30 * time.Second
	pongTime  = 60 * time.Second
	pingTime  = 20 * time.Second
)

// Config configures a Handler. All fields are needed.
type Config struct {
	Sessions *door.Sessions
	// Allowed returns an error if an action isn't allowed, and Confirm one if the user hasn't confirmed it.
	Allowed func(*podwebv1.Action) error
	Confirm func(confirmation string, action *podwebv1.Action) error
	// UID returns the UID of the pod with a key.
	UID func(key string) (string, bool)
	// Touch is called when the user sends something.
	Touch func()
	// Podexecd runs the commands. Nil: Allowed refuses all.
	Podexecd *upstream.Daemon
}

// Handler serves the WebSocket. It is safe for concurrent use.
type Handler struct {
	cfg      Config
	upgrader websocket.Upgrader

	mu             sync.Mutex
	open, unproven int
}

// New returns a Handler.
func New(cfg Config) *Handler {
	return &Handler{cfg: cfg, upgrader: websocket.Upgrader{
		HandshakeTimeout: openTime, Subprotocols: []string{Protocol},
		// The door has checked it.
		CheckOrigin: func(*http.Request) bool { return true },
	}}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	proven, release, ok := h.admit()
	if !ok {
		http.Error(w, "too many connections", http.StatusServiceUnavailable)
		return
	}
	defer release()
	ws, err := h.upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // Upgrade has answered.
	}
	c := &connection{handler: h, ws: ws}
	defer c.close()
	ws.SetReadLimit(maxMessage)
	open, err := c.receiveOpen()
	if err != nil {
		c.end(0, err)
		return
	}
	proven()
	door.Trust(r.Context())
	code, err := c.run(r.Context(), open)
	c.end(code, err)
}

// admit counts a connection until release. proven is called once it has shown a token.
func (h *Handler) admit() (proven, release func(), ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open >= maxConnections || h.unproven >= maxUnproven {
		return nil, nil, false
	}
	h.open++
	h.unproven++
	proven = sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.unproven--
	})
	return proven, func() {
		proven()
		h.mu.Lock()
		defer h.mu.Unlock()
		h.open--
	}, true
}

// connection is one WebSocket.
type connection struct {
	handler *Handler
	ws      *websocket.Conn
	writing sync.Mutex
}

// errNoSession: the first message has no valid token.
var errNoSession = errors.New("the session is over: open podctl web again")

// receiveOpen waits for the first message, and checks it.
func (c *connection) receiveOpen() (*podwebv1.ExecOpen, error) {
	if err := c.ws.SetReadDeadline(time.Now().Add(openTime)); err != nil {
		return nil, err
	}
	m, err := c.receive()
	if err != nil {
		return nil, fmt.Errorf("the first message: %w", err)
	}
	open := m.GetOpen()
	if open == nil {
		return nil, errors.New("the first message has to name the command")
	}
	if !c.handler.cfg.Sessions.Valid(open.GetSession()) && !failpoint.Active(failpoint.WebToken) {
		return nil, errNoSession
	}
	action := &podwebv1.Action{Action: &podwebv1.Action_Exec{Exec: open.GetAction()}}
	if err := c.handler.cfg.Allowed(action); err != nil {
		return nil, err
	}
	return open, c.handler.cfg.Confirm(open.GetConfirmation(), action)
}

// receive waits for the next message of the page.
func (c *connection) receive() (*podwebv1.ExecClientMessage, error) {
	kind, data, err := c.ws.ReadMessage()
	if err != nil {
		return nil, err
	}
	if kind != websocket.BinaryMessage {
		return nil, errors.New("it isn't a binary message")
	}
	m := &podwebv1.ExecClientMessage{}
	if err := proto.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("it isn't a message of podweb.v1: %w", err)
	}
	return m, nil
}

// send sends a message.
func (c *connection) send(m *podwebv1.ExecServerMessage) error {
	data, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.ws.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return err
	}
	return c.ws.WriteMessage(websocket.BinaryMessage, data)
}

// end sends how the command ended, and closes the connection in good order. A page that has gone away doesn't get it.
func (c *connection) end(code int32, err error) {
	end := &podwebv1.ExecEnd{ExitCode: code}
	if err != nil {
		end.Error = plaintext.Line(err.Error(), plaintext.Message)
	}
	if c.send(&podwebv1.ExecServerMessage{Message: &podwebv1.ExecServerMessage_End{End: end}}) == nil {
		c.writing.Lock()
		defer c.writing.Unlock()
		closing := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		_ = c.ws.WriteControl(websocket.CloseMessage, closing, time.Now().Add(writeTime))
	}
}

func (c *connection) close() { _ = c.ws.Close() }

// ref returns the reference of the pod of an action.
func (h *Handler) ref(action *podwebv1.ExecAction) (*podconfigv1.PodRef, error) {
	uid, ok := h.cfg.UID(action.GetPodKey())
	if !ok {
		return nil, errors.New("there is no such pod any more")
	}
	return &podconfigv1.PodRef{Uid: uid}, nil
}

// keepAlive sends pings until ctx ends.
func (c *connection) keepAlive(ctx context.Context) {
	ticker := time.NewTicker(pingTime)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if c.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeTime)) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
