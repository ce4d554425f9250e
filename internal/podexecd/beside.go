package podexecd

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/podstream/podstream/internal/kubeletproc"
)

// checkKubelet returns an error if a kubelet runs on this machine: each of the two agents would remove the other one's
// containers, or take its ports and its Node. With adopt, it must be certain that there is none.
func checkKubelet(ctx context.Context, opts *Options, log *slog.Logger) error {
	s, adopt := opts.settings, opts.adoptKubelet
	socket, local := strings.CutPrefix(s.RuntimeEndpoint, "unix://")
	if !local {
		if adopt {
			return fmt.Errorf("--adopt-kubelet-pods: the runtime's endpoint %s isn't unix:///path, so a kubelet that uses it can't be found", s.RuntimeEndpoint)
		}
		socket = ""
	}
	kubelet, err := kubeletproc.Search{Socket: socket, Dir: opts.kubeletDir, Ports: s.Ports()}.Find(ctx)
	switch {
	case err != nil && adopt:
		return fmt.Errorf("--adopt-kubelet-pods: it is unknown whether a kubelet runs on this machine: %w", err)
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

// checkAdoption returns an error if pods of a kubelet run whose directories are in dirs, and they aren't adopted. If
// the runtime doesn't answer, it asks again until ctx ends.
func checkAdoption(ctx context.Context, r interface {
	NotAdopted(ctx context.Context) ([]string, error)
}, dirs []string, log *slog.Logger,
) error {
	for reported := false; ; reported = true {
		pods, err := r.NotAdopted(ctx)
		if err == nil {
			return refuseAdoption(pods, dirs)
		}
		if !reported {
			log.Warn("it is unknown whether pods of a kubelet run here; asking the container runtime until it answers", "error", err)
		}
		select {
		case <-time.After(retryConnect):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// refuseAdoption returns an error that names these pods of a kubelet. Nil: there are none.
func refuseAdoption(pods, dirs []string) error {
	if len(pods) == 0 {
		return nil
	}
	const shown = 5
	names := strings.Join(pods[:min(len(pods), shown)], ", ")
	if more := len(pods) - shown; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("pods of a kubelet run that have directories in %s: %s; "+
		"start podexecd with --adopt-kubelet-pods, or start the kubelet and drain the node", strings.Join(dirs, " and "), names)
}
