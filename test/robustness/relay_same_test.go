package robustness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/manifest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	// convergence is the time limit for the end of a chain to have the pods of its head. lookAgain is the
	// interval of the comparisons.
	convergence = time.Minute
	lookAgain   = 10 * time.Millisecond
)

// errApart means that the end never gets the pods of the head, or gets them in a different form.
var errApart = errors.New("head and end stay apart")

// converge makes every source of the head deliver a set without held origins, and waits until the end has the
// pods of the head.
func (c *chain) converge() error {
	if err := c.apply(steadySet(c.feeds.second)); err != nil {
		return err
	}
	for _, source := range c.sources {
		if err := c.apply(c.feeds.healthySet(source)); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.convergence+startTimeout)
	defer cancel()
	late := time.After(c.convergence)
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	for {
		apart, err := c.apart(ctx)
		if err != nil {
			return fmt.Errorf("compare head and end: %w", err)
		}
		if apart == "" {
			return nil
		}
		select {
		case <-ticker.C:
		case <-late:
			return fmt.Errorf("%w for %v (-head +end):\n%s\nthe middle's log ends with:\n%s\nthe end's:\n%s",
				errApart, c.convergence, apart, c.middle.process.LogTail(), c.last.daemon.(*relayd).process.LogTail())
		}
	}
}

// heard waits until the middle has reported to the head that it is in step.
func (c *chain) heard() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	for {
		resp, err := c.head.api().ListConsumers(ctx, &podconfigv1.ListConsumersRequest{})
		if err != nil {
			return fmt.Errorf("list the head's consumers: %w", err)
		}
		reported := func(one *podconfigv1.Consumer) bool { return !one.GetObjects() && one.GetLastReport() != nil }
		if slices.ContainsFunc(resp.GetConsumers(), reported) {
			return nil
		}
		<-ticker.C
	}
}

// apart returns how the end differs from the head.
func (c *chain) apart(ctx context.Context) (string, error) {
	ready, err := isReady(ctx, c.head.api())
	if err != nil {
		return "", err
	}
	head, _, err := listAll(ctx, c.head.api(), podconfigv1.PodFormat_POD_FORMAT_REFERENCE)
	if err != nil {
		return "", err
	}
	end, number, err := listAll(ctx, c.last.daemon.api(), podconfigv1.PodFormat_POD_FORMAT_REFERENCE)
	if err != nil {
		return "", err
	}
	endReady, err := isReady(ctx, c.last.daemon.api())
	if err != nil || !ready || !endReady {
		return fmt.Sprintf("ready: the head %v, the end %v", ready, endReady), err
	}
	c.last.now.revision = number
	return cmp.Diff(references(head), references(end)), nil
}

// isReady reports whether all sources are ready.
func isReady(ctx context.Context, api podconfigv1.PodConfigServiceClient) (bool, error) {
	resp, err := api.ListSources(ctx, &podconfigv1.ListSourcesRequest{})
	return !slices.ContainsFunc(resp.GetSources(), func(s *podconfigv1.Source) bool { return !s.GetReady() }), err
}

func references(pods []*podconfigv1.Pod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, fmt.Sprintf("%s/%s %s spec %s status %s stale=%v", p.GetRef().GetNamespace(), p.GetRef().GetName(),
			p.GetRef().GetUid(), p.GetSpecDigest(), p.GetStatusDigest(), p.GetStale()))
	}
	slices.Sort(out)
	return out
}

// listAll returns all pods at one revision.
func listAll(
	ctx context.Context, api podconfigv1.PodConfigServiceClient, format podconfigv1.PodFormat,
) (pods []*podconfigv1.Pod, revision uint64, err error) {
	for token := ""; ; {
		resp, err := api.ListPods(ctx, &podconfigv1.ListPodsRequest{Format: format, PageToken: token})
		if err != nil {
			return nil, 0, err
		}
		pods = append(pods, resp.GetPods()...)
		if token = resp.GetNextPageToken(); token == "" {
			return pods, resp.GetRevision(), nil
		}
	}
}

// hopID matches the ID of a podconfigd in a relay-path. It may be an ID from an earlier store.
var hopID = regexp.MustCompile(`\([0-9a-f]+\)`)

// same checks that the pods at the end are the pods at the head, except for the fields that show their origin.
func (c *chain) same() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	head, err := c.contents(ctx, c.head.api())
	if err != nil {
		return err
	}
	end, err := c.contents(ctx, c.last.daemon.api())
	if err != nil {
		return err
	}
	node, err := os.Hostname()
	if err != nil {
		return err
	}
	for uid, p := range head {
		source := p.Annotations[manifest.SourceAnnotation]
		p.Annotations[manifest.RelayPathAnnotation] = c.middle.name + "/" + relaySource + "," + strings.ToLower(node) + "/" + source
		p.Annotations[manifest.SourceAnnotation] = relaySource
		if at := end[uid]; at != nil {
			p.Annotations[manifest.SeenAnnotation] = at.Annotations[manifest.SeenAnnotation]
			at.Annotations[manifest.RelayPathAnnotation] = hopID.ReplaceAllString(at.Annotations[manifest.RelayPathAnnotation], "")
		}
		if _, err := time.Parse(time.RFC3339Nano, p.Annotations[manifest.SeenAnnotation]); err != nil {
			return fmt.Errorf("at the end %s was first seen: %w", uid, err)
		}
	}
	if diff := cmp.Diff(head, end); diff != "" {
		return fmt.Errorf("%w (-want +got):\n%s", errApart, diff)
	}
	return nil
}

// contents returns all pods, by UID.
func (c *chain) contents(ctx context.Context, api podconfigv1.PodConfigServiceClient) (map[string]*v1.Pod, error) {
	pods, _, err := listAll(ctx, api, podconfigv1.PodFormat_POD_FORMAT_PROTOBUF)
	if err != nil {
		return nil, err
	}
	out := map[string]*v1.Pod{}
	for _, p := range pods {
		body := decode(p)
		if body.err != nil || body.spec != p.GetSpecDigest() || body.status != p.GetStatusDigest() {
			return nil, fmt.Errorf("the content of %s doesn't match its digests: %w", p.GetRef().GetUid(), body.err)
		}
		out[p.GetRef().GetUid()] = body.pod
	}
	return out, nil
}

// judge runs all checkers, and returns the run of the end.
func (c *chain) judge() (*Run, error) {
	h := c.record.History()
	learnReadTimes(h)
	head := NewRun(h)
	if breaches := head.breaches(); len(breaches) > 0 {
		return nil, fmt.Errorf("at the head: %s", account(h, breaches))
	}
	h = c.last.recorder.History()
	end := NewRelayRun(h, relaySource, c.witness.consumer)
	if breaches := end.breaches(); len(breaches) > 0 {
		return end, fmt.Errorf("at the end: %s", account(h, breaches))
	}
	err := Relayed(head, end)
	if err == nil {
		err = Undisturbed(end, bystanders...)
	}
	if err != nil {
		return end, fmt.Errorf("%w\nthe head:\n%s\nthe end:\n%s", err, account(head.History, nil), account(h, nil))
	}
	return end, nil
}
