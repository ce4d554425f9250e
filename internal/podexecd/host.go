package podexecd

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/daemon/process"
	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/machine/nodeinfo"
	"github.com/podstream/podstream/internal/execsvc/machine/placement"
	"github.com/podstream/podstream/internal/execsvc/setup/cgroup"
	"github.com/podstream/podstream/internal/tunables"
)

// prepareHost checks the machine, and sets the kernel's settings and the limits of this process. Its error is that of a
// machine on which podexecd must not run, by its configuration. root is the directory of the machine's /proc; empty: /.
func prepareHost(s *execconfig.Settings, root string, log *slog.Logger) error {
	if err := checkSwap(s, root, log); err != nil {
		return err
	}
	if err := tuneKernel(s, tunables.Kernel{Root: root}, log); err != nil {
		return err
	}
	if err := process.SetOOMScoreAdj(s.OOMScoreAdj); err != nil {
		log.Warn("--oom-score-adj can't be set, which needs CAP_SYS_RESOURCE; short of memory, the kernel may kill podexecd before pods",
			"oom_score_adj", s.OOMScoreAdj, "error", err)
	}
	if err := process.SetOpenFiles(uint64(s.MaxOpenFiles)); err != nil { //nolint:gosec // The settings were checked.
		log.Warn("--max-open-files can't be set, which needs CAP_SYS_RESOURCE", "limit", s.MaxOpenFiles, "error", err)
	}
	return nil
}

// checkSwap returns an error if swap is on and must not be.
func checkSwap(s *execconfig.Settings, root string, log *slog.Logger) error {
	swaps, err := nodeinfo.Swaps(root)
	switch {
	case err != nil && s.FailSwapOn:
		return err
	case err != nil:
		log.Warn("it is unknown whether swap is on", "error", err)
	case len(swaps) > 0 && s.FailSwapOn:
		return fmt.Errorf("running with swap on is not supported, please disable swap or set --fail-swap-on flag to false: /proc/swaps has %s",
			strings.Join(swaps, ", "))
	}
	return nil
}

// tuneKernel sets the settings that aren't the kubelet's. With protectKernelDefaults it sets none, and each is an error.
// Otherwise a setting that can't be set is none: podexecd may be in a container that can't change the kernel.
func tuneKernel(s *execconfig.Settings, kernel tunables.Kernel, log *slog.Logger) error {
	var wrong []error
	for _, d := range kernel.Differing() {
		switch {
		case s.ProtectKernelDefaults:
			wrong = append(wrong, d)
		case d.Err != nil:
			log.Warn("a setting of the kernel is unknown", "setting", d.Name, "want", d.Want, "error", d.Err)
		case !s.TuneKernel:
			log.Info("a setting of the kernel isn't the kubelet's (--tune-kernel=false)", "setting", d.Name, "is", d.Is, "want", d.Want)
		default:
			if err := kernel.Set(d.Tunable); err != nil {
				log.Warn("a setting of the kernel isn't the kubelet's, and can't be set", "setting", d.Name, "is", d.Is, "want", d.Want, "error", err)
				continue
			}
			log.Info("set a setting of the kernel", "setting", d.Name, "was", d.Is, "is", d.Want)
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("--protect-kernel-defaults: %w", errors.Join(wrong...))
	}
	return nil
}

// placer returns the mover of processes; nil if none move.
func placer(s *execconfig.Settings, log *slog.Logger) (*placement.Placer, error) {
	if s.KubeletCgroups == "" && s.SystemCgroups == "" {
		return nil, nil //nolint:nilnil // There is nothing to do, which is no error.
	}
	return placement.New(placement.Config{KubeletCgroups: s.KubeletCgroups, SystemCgroups: s.SystemCgroups, Logger: log})
}

// The reasons of events about limits.
const (
	enforcedReason        = "NodeAllocatableEnforced"
	failedEnforcingReason = "FailedNodeAllocatableEnforcement"
)

// reservation is a cgroup that enforceNodeAllocatable may name, and what is reserved for it.
type reservation struct {
	enforced, whose, cgroup, field string
	resources                      map[string]string
	compressible                   bool
}

// reservations are all, in the kubelet's order.
func reservations(s *execconfig.Settings) []reservation {
	return []reservation{
		{execconfig.EnforceSystemReserved, "System Reserved", s.SystemReservedCgroup, "systemReserved", s.SystemReserved, false},
		{execconfig.EnforceKubeReserved, "Kube Reserved", s.KubeReservedCgroup, "kubeReserved", s.KubeReserved, false},
		{execconfig.EnforceSystemReservedCompressible, "System Reserved Compressible", s.SystemReservedCgroup, "systemReserved", s.SystemReserved, true},
		{execconfig.EnforceKubeReservedCompressible, "Kube Reserved Compressible", s.KubeReservedCgroup, "kubeReserved", s.KubeReserved, true},
	}
}

// enforceReserved limits the cgroups of the node's daemons to what is reserved for them. The kubelet's event says
// "system reserved" or "kube reserved", also if only the compressible resources are limited.
func enforceReserved(s *execconfig.Settings, driver string, event func(nodestatus.Event), log *slog.Logger) error {
	for _, r := range reservations(s) {
		if !s.Enforces(r.enforced) {
			continue
		}
		resources, err := nodeinfo.Reservation(r.field, r.resources)
		if err == nil {
			err = cgroup.Reserved{
				Name: r.cgroup, Driver: driver, Root: s.CgroupRoot, Resources: resources, Compressible: r.compressible, ReserveMemory: s.ReserveMemory,
			}.Enforce()
		}
		if err != nil {
			err = fmt.Errorf("Failed to enforce %s Cgroup Limits on %q: %w", r.whose, r.cgroup, err) //nolint:staticcheck // The kubelet's words.
			event(nodestatus.Event{Type: v1.EventTypeWarning, Reason: failedEnforcingReason, Message: err.Error()})
			return err
		}
		log.Info("limited a cgroup to what is reserved for it", "cgroup", r.cgroup, "enforced", r.enforced, "resources", r.resources)
		event(nodestatus.Event{
			Type: v1.EventTypeNormal, Reason: enforcedReason,
			Message: fmt.Sprintf("Updated limits on %s cgroup %s", strings.TrimSuffix(strings.ToLower(r.whose), " compressible"), r.cgroup),
		})
	}
	return nil
}

// podsLimited returns a function that records whether the limits of all pods, in a cgroup of that name, are set.
func podsLimited(at string, event func(nodestatus.Event)) func(error) {
	return func(err error) {
		if err != nil {
			event(nodestatus.Event{
				Type: v1.EventTypeWarning, Reason: failedEnforcingReason, Message: fmt.Sprintf("Failed to update Node Allocatable Limits %q: %v", at, err),
			})
			return
		}
		event(nodestatus.Event{Type: v1.EventTypeNormal, Reason: enforcedReason, Message: "Updated Node Allocatable limit across pods"})
	}
}
