package podexecd

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/kubeletproc"
)

// checkKubelet returns an error if a kubelet runs on this machine: each of the two agents would remove the other one's
// containers, or take its ports and its Node.
func checkKubelet(ctx context.Context, s *execconfig.Settings, log *slog.Logger) error {
	socket, local := strings.CutPrefix(s.RuntimeEndpoint, "unix://")
	if !local {
		socket = ""
	}
	kubelet, err := kubeletproc.Search{Socket: socket, Ports: s.Ports()}.Find(ctx)
	switch {
	case err != nil:
		log.Warn("it is unknown whether a kubelet runs on this machine; podexecd must not run beside one", "error", err)
		return nil
	case kubelet == nil:
		return nil
	}
	stop := "stop it"
	if kubelet.Unit != "" {
		stop += " (systemctl disable --now " + kubelet.Unit + ")"
	}
	return fmt.Errorf("a kubelet runs on this machine, %s, and %s; %s, then start podexecd again", kubelet, kubelet.Why, stop)
}
