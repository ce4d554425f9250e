package stream

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/gorilla/websocket"
	constants "k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/client-go/tools/portforward"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// portForward connects the caller to ports in a pod's network, until the pod has ended.
func (h *Handler) portForward(w http.ResponseWriter, r *http.Request, pod podview.Pod) error {
	if err := upgradeRequired(r); err != nil {
		return err
	}
	tunnelled := tunnelledProtocols(r)
	ports, err := portsOf(r.URL.Query())
	if err != nil {
		return err
	}
	if len(tunnelled) == 0 && websocket.IsWebSocketUpgrade(r) && len(ports) == 0 {
		return badRequest(`query parameter "port" is required`)
	}
	if hasEnded(pod) {
		return notFound("pod not found (%q): it has ended", pod.Name)
	}
	u, err := h.cfg.Runtime.PortForwardURL(r.Context(), pod.UID, ports)
	if err != nil {
		return err
	}
	// Unlike the streams of a container these outlive the pod, and would only fail one by one.
	ctx, cancel := context.WithCancel(r.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer cancel()
		podview.AwaitEnd(ctx, h.cfg.Pods, pod.UID)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	r = r.WithContext(ctx)
	if len(tunnelled) > 0 {
		h.metrics.websockets.WithLabelValues("portforward").Inc()
		return h.tunnel(w, r, u, tunnelled)
	}
	return h.pass(w, r, u)
}

// portsOf returns the ports of a query, which may be in one parameter.
func portsOf(query url.Values) ([]int32, error) {
	var ports []int32
	for _, list := range query["port"] {
		for text := range strings.SplitSeq(list, ",") {
			n, err := strconv.ParseUint(text, 10, 16)
			if err != nil || n == 0 {
				return nil, badRequest("unable to parse %q as a port", text)
			}
			ports = append(ports, int32(n)) //nolint:gosec // 1 to 65535.
		}
	}
	return ports, nil
}

func hasEnded(p podview.Pod) bool {
	return p.Status != nil && podmeta.IsTerminal(p.Status.Phase)
}

// tunnelledProtocols returns the protocols over SPDY that the caller offers, if it offers SPDY in a WebSocket's
// messages.
func tunnelledProtocols(r *http.Request) []string {
	if !websocket.IsWebSocketUpgrade(r) {
		return nil
	}
	var protocols []string
	for _, offered := range websocket.Subprotocols(r) {
		if protocol, ok := strings.CutPrefix(offered, constants.WebsocketsSPDYTunnelingPrefix); ok {
			protocols = append(protocols, protocol)
		}
	}
	return protocols
}

// tunnel carries SPDY between the caller and the runtime in a WebSocket's messages.
func (h *Handler) tunnel(w http.ResponseWriter, r *http.Request, u *url.URL, protocols []string) error {
	backend, response, err := h.connect(r.Context(), http.MethodPost, u, http.Header{ //nolint:bodyclose // It is the backend.
		"Upgrade": {"SPDY/3.1"}, "X-Stream-Protocol-Version": protocols,
	})
	if err != nil {
		return err
	}
	chosen := constants.WebsocketsSPDYTunnelingPrefix + response.Header.Get("X-Stream-Protocol-Version")
	conn, err := upgrader(chosen).Upgrade(w, r, nil)
	if err != nil {
		_ = backend.Close()
		h.log.DebugContext(r.Context(), "a WebSocket doesn't open", "error", err)
		return nil
	}
	splice(r.Context(), portforward.NewTunnelingConnection("podexecd", conn), backend, "", h.cfg.IdleTimeout)
	return nil
}
