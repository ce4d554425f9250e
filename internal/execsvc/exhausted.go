package execsvc

import (
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/decide/attachlimit"
	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// exhausted returns why the pod must fail whose setup has failed with err: the node can't have its volumes attached. Nil: it waits,
// as do all pods of which a container or sandbox exists, and those that no controller would create again.
func (a *Agent) exhausted(pod *v1.Pod, has *observed.Pod, err error) *status.Failure {
	if has.Active() || !a.cfg.Final(pod) {
		return nil
	}
	var unmounted, unattached []string
	var why error
	for _, part := range parts(err) {
		failed, ok := errors.AsType[*volume.FailedError](part)
		if !ok {
			continue
		}
		unmounted = append(unmounted, failed.Volume)
		if exceeded, ok := errors.AsType[*attachlimit.ExceededError](part); ok {
			unattached, why = append(unattached, failed.Volume), exceeded
		}
	}
	if why == nil {
		return nil
	}
	slices.Sort(unmounted)
	slices.Sort(unattached)
	message := events.Presentable(attachlimit.Message(unmounted, unattached, why))
	a.log.Error("pod was rejected", "pod", podmeta.LogName(pod), "uid", pod.UID, "reason", attachlimit.Reason, "message", message)
	a.cfg.Events.Record(pod, "", events.Warning, attachlimit.Reason, message)
	a.metrics.rejected.WithLabelValues(kubeletmetrics.RejectionLabel(attachlimit.Reason)).Inc()
	return &status.Failure{Reason: attachlimit.Reason, Message: admit.RejectedPrefix + message, Rejected: true}
}
