package podexecd

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/podstream/podstream/internal/kubeletproc"
)

// checkKubelet returns an error if a kubelet uses the runtime with this endpoint: each of the two agents would remove the
// other one's containers.
func checkKubelet(ctx context.Context, endpoint string, log *slog.Logger) error {
	socket, local := strings.CutPrefix(endpoint, "unix://")
	if !local {
		return nil
	}
	kubelet, err := kubeletproc.Using(ctx, "", socket)
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
	return fmt.Errorf("a kubelet runs on this machine with the same container runtime, %s: %s; %s, then start podexecd again", socket, kubelet, stop)
}
