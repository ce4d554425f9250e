package podctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/podctl/logmerge"
	"github.com/podstream/podstream/internal/podctl/podsummary"
	"github.com/podstream/podstream/internal/podctl/render"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// maxMerged is the maximum number of logs that are merged: podexecd serves at most 256 calls on one connection.
const maxMerged = 100

// containerLog is a log that is requested.
type containerLog struct {
	ref *podconfigv1.PodRef
	// container may be empty: podexecd chooses. only is then the pod's container, if it has one only.
	container, only string
}

// logsOf returns the logs that the flags select.
func (t *tool) logsOf(ctx context.Context, o logsOptions) ([]containerLog, error) {
	var pods []*podexecv1.ObservedPod
	if o.selector == "" {
		pod, err := t.findPod(ctx, o.pod)
		if err != nil {
			return nil, err
		}
		pods = append(pods, pod)
	} else {
		var err error
		if pods, err = t.selectedPods(ctx, o.pod.namespace, o.selector); err != nil {
			return nil, err
		}
	}
	var logs []containerLog
	for _, pod := range pods {
		names := []string{o.container}
		if o.allContainers {
			var err error
			if names, err = containersOf(pod); err != nil {
				return nil, err
			}
		}
		for _, name := range names {
			logs = append(logs, containerLog{pod.GetRef(), name, onlyContainer(pod)})
		}
	}
	switch {
	case o.follow && len(logs) > o.maxFollowed:
		return nil, fmt.Errorf("there are %d logs to follow, and at most %d are followed: raise it by --max-log-requests", len(logs), o.maxFollowed)
	case len(logs) > maxMerged:
		return nil, fmt.Errorf("there are %d logs, and at most %d are merged: select fewer pods", len(logs), maxMerged)
	}
	return logs, nil
}

// onlyContainer returns the name of the container of a pod with one; empty if it has several, or isn't known.
func onlyContainer(pod *podexecv1.ObservedPod) string {
	if names, err := containersOf(pod); err == nil && len(names) == 1 {
		return names[0]
	}
	return ""
}

// containersOf returns the names of a pod's containers, in the order in which kubectl logs has them.
func containersOf(pod *podexecv1.ObservedPod) ([]string, error) {
	pairs, errs := podsummary.Join(nil, []*podexecv1.ObservedPod{pod})
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	status := pairs[0].Status
	var names []string
	for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for i := range list {
			names = append(names, list[i].Name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("pod %s has no containers yet", podsummary.FullName(pod.GetRef()))
	}
	return slices.Compact(names), nil
}

// mergeOptions are the options of mergeLogs.
type mergeOptions struct {
	logsOptions
	request *podexecv1.ReadLogsRequest
	out     io.Writer
}

// mergeLogs prints several logs by lines. The error names each log that failed.
func (t *tool) mergeLogs(ctx context.Context, cancel context.CancelFunc, conn *connection, logs []containerLog, o mergeOptions) error {
	var failed []error
	// The times are the order of the lines. With a limit of bytes they would count, too: then one log comes after the other.
	timed := o.timestamps || !o.follow && o.limitSize == 0
	cfg := logmerge.Config{
		Out: o.out, Timed: timed, Timestamps: o.timestamps,
		Failed: func(log logmerge.Log, err error) {
			if ctx.Err() == nil {
				failed = append(failed, fmt.Errorf("%s: %w", log.Name, conn.explain(err)))
			}
		},
		Defaulted: func(d *podexecv1.DefaultedContainer) { t.noteDefaulted(d, "\n") },
	}
	for _, log := range logs {
		request := proto.CloneOf(o.request)
		request.Ref, request.Container = log.ref, log.container
		request.Timestamps = timed
		stream, err := podexecv1.NewPodExecServiceClient(conn).ReadLogs(ctx, request)
		if err != nil {
			return conn.explain(err)
		}
		merged := logmerge.Log{Name: podsummary.FullName(log.ref), Container: cmp.Or(log.container, log.only), Stream: stream}
		if log.container != "" {
			merged.Name += ", container " + log.container
		}
		if o.prefix {
			merged.Prefix = func(container string) string {
				return render.Escape("[pod/" + log.ref.GetName() + "/" + container + "]")
			}
		}
		cfg.Logs = append(cfg.Logs, merged)
	}
	var err error
	if o.follow {
		err = logmerge.Follow(ctx, cancel, cfg)
	} else {
		err = logmerge.Merge(cfg)
	}
	if err == nil && !o.follow {
		err = ctx.Err()
	}
	return errors.Join(append([]error{err}, failed...)...)
}
