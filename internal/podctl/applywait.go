package podctl

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// waitInterval is the interval at which podexecd is asked for the pods of a write.
const waitInterval = 500 * time.Millisecond

// effectWait are the flags of a command that may wait for the effect of its write.
type effectWait struct {
	wait    bool
	timeout time.Duration
}

func (o *effectWait) addFlags(flags *pflag.FlagSet, until string) {
	flags.BoolVar(&o.wait, "wait", false, "wait "+until)
	flags.DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long --wait waits; 0 waits forever")
}

// written is the effect that a write has to have at podexecd.
type written struct {
	results  []*podconfigv1.ManifestResult
	instance string
	revision uint64
}

// await waits until podexecd has applied the revision of a write, the written pods are ready or have succeeded, and nothing
// is left of the removed ones.
func (t *tool) await(ctx context.Context, o effectWait, w written) error {
	if !o.wait {
		return nil
	}
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("it takes longer than %s (--timeout)", o.timeout))
		defer cancel()
	}
	said := ""
	for {
		why, err := t.pending(ctx, w)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("the manifests are written, and podctl waits no longer: %w; last: %s", context.Cause(ctx), said)
		case err != nil:
			return fmt.Errorf("the manifests are written, and podctl can't wait for the pods: %w", err)
		case why == "":
			return nil
		}
		if why != said {
			t.note("waiting: %s", why)
			said = why
		}
		select {
		case <-ctx.Done():
		case <-t.Clock.After(waitInterval):
		}
	}
}

// pending returns what podexecd has yet to do; empty: nothing. The error is final.
func (t *tool) pending(ctx context.Context, w written) (string, error) {
	names, namespaces := []string{}, []string{}
	for _, r := range w.results {
		if p := r.GetPod(); p != nil {
			names, namespaces = append(names, p.GetName()), append(namespaces, p.GetNamespace())
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	slices.Sort(namespaces)
	asked, cancel := t.listContext(ctx)
	defer cancel()
	var pods []*podexecv1.ObservedPod
	for some := range slices.Chunk(names, namesOfOneList) {
		found, err := t.listObserved(asked, &podconfigv1.PodFilter{Names: some, Namespaces: slices.Compact(namespaces)})
		if err != nil {
			return "", err
		}
		pods = append(pods, found...)
	}
	byUID := map[string]*podexecv1.ObservedPod{}
	for _, p := range pods {
		byUID[p.GetRef().GetUid()] = p
	}
	for _, r := range w.results {
		if why, err := pendingPod(r, byUID[r.GetPod().GetUid()]); why != "" || err != nil {
			return why, err
		}
	}
	return t.pendingReport(asked, w)
}

// pendingPod returns what podexecd has yet to do for one pod. observed may be nil.
func pendingPod(r *podconfigv1.ManifestResult, observed *podexecv1.ObservedPod) (string, error) {
	ref := r.GetPod()
	if ref == nil {
		return "", nil
	}
	name := "pod " + ref.GetNamespace() + "/" + ref.GetName()
	if r.GetDigest() == "" {
		if observed != nil {
			return name + " is being removed", nil
		}
		return "", nil
	}
	if observed == nil || !observed.GetDesired() {
		return name + " isn't known to podexecd yet", nil
	}
	st := corev1.PodStatus{}
	if err := st.Unmarshal(observed.GetProtobuf()); err != nil {
		return "", fmt.Errorf("decode the status of %s: %w", name, err)
	}
	switch {
	case st.Phase == corev1.PodSucceeded:
		return "", nil
	case st.Phase == corev1.PodFailed:
		return "", fmt.Errorf("%s has failed: %s", name, strings.TrimSpace(st.Reason+" "+st.Message))
	}
	for _, c := range st.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return "", nil
		}
	}
	why := name + " isn't ready"
	for _, text := range []string{observed.GetLastError(), observed.GetWaitsFor()} {
		if text != "" {
			return why + ": " + text, nil
		}
	}
	return why, nil
}

// pendingReport returns that no consumer has applied the revision, if that isn't known from the pods: a pod that goes on
// with its UID looks the same before and after. A caller that may not see the consumers doesn't wait for that.
func (t *tool) pendingReport(ctx context.Context, w written) (string, error) {
	if !slices.ContainsFunc(w.results, func(r *podconfigv1.ManifestResult) bool {
		return r.GetAction() == podconfigv1.ManifestAction_MANIFEST_ACTION_CONFIGURED && r.GetPod().GetUid() == r.GetPreviousUid()
	}) {
		return "", nil
	}
	conn, err := t.podconfigd.connect(t.userAgent())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	resp, err := podconfigv1.NewPodConfigServiceClient(conn).ListConsumers(ctx, &podconfigv1.ListConsumersRequest{})
	switch {
	case status.Code(err) == codes.PermissionDenied:
		return "", nil
	case err != nil:
		return "", conn.explain(err)
	}
	for _, c := range resp.GetConsumers() {
		if cursor := c.GetLastReport().GetCursor(); cursor.GetInstanceId() == w.instance && cursor.GetRevision() >= w.revision {
			return "", nil
		}
	}
	return fmt.Sprintf("podexecd hasn't applied revision %d yet", w.revision), nil
}
