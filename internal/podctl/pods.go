package podctl

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// podsOptions are the flags of pods.
type podsOptions struct {
	namespace     string
	allNamespaces bool
	watch         bool
}

func (t *tool) podsCommand() *cobra.Command {
	var o podsOptions
	cmd := &cobra.Command{
		Use:   "pods",
		Short: "Show the pods that should run here beside those that do",
		Long: `Pods shows the pods that should run on this node, as podconfigd has them, beside what podexecd has made of them.

With --watch it shows podexecd's pods, and goes on with a line for each change of one's status, across reconnections, until
Ctrl-C. A pod of which nothing is left comes as Removed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.watch {
				return t.newPodsWatcher(o).run(cmd.Context())
			}
			return t.runPods(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", "", "only the pods of this `namespace`")
	cmd.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "the pods of all namespaces, which is the default; wins over -n")
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "go on with every change, as podexecd tells it")
	return cmd
}

func (o podsOptions) filter() *podconfigv1.PodFilter {
	if o.namespace == "" || o.allNamespaces {
		return nil
	}
	return &podconfigv1.PodFilter{Namespaces: []string{o.namespace}}
}

// runPods shows as much as it can get: the administrator who asks has trouble with one of the daemons, perhaps.
func (t *tool) runPods(ctx context.Context, o podsOptions) error {
	ctx, cancel := t.listContext(ctx)
	defer cancel()
	var (
		wg                    sync.WaitGroup
		desired               []*podconfigv1.Pod
		observed              []*podexecv1.ObservedPod
		desiredErr, observErr error
	)
	wg.Go(func() { desired, desiredErr = t.listDesired(ctx, o.filter()) })
	wg.Go(func() { observed, observErr = t.listObserved(ctx, o.filter()) })
	wg.Wait()

	have := answered{podconfigd: desiredErr == nil, podexecd: observErr == nil}
	failed := errors.Join(desiredErr, observErr)
	if !have.podconfigd && !have.podexecd {
		return failed
	}
	pairs, undecodable := join(desired, observed)
	if err := t.printPods(pairs, have); err != nil {
		return err
	}
	return errors.Join(append([]error{failed}, undecodable...)...)
}

func (t *tool) printPods(pairs []*pair, have answered) error {
	now := t.Clock.Now()
	if !t.output.isTable() {
		docs := make([]podDocument, len(pairs))
		for i, p := range pairs {
			docs[i] = p.document(p.row(have, now))
		}
		return (&documents{out: t.Stdout, output: t.output}).print(docs)
	}
	if len(pairs) == 0 {
		t.note("no pods found")
		return nil
	}
	out := t.newPodTable()
	for _, p := range pairs {
		out.pod(p, p.row(have, now), t.output == outputWide)
	}
	return out.flush()
}

func (t *tool) newPodTable() *table {
	header := []string{"NAMESPACE", "NAME", "SOURCE", "STATUS", "READY", "RESTARTS", "AGE"}
	if t.output == outputWide {
		header = append(header, "IP", "UID", "WORKER", "MESSAGE")
	}
	return newTable(t.Stdout, header...)
}

// pod adds the line of a pod to a table of newPodTable.
func (t *table) pod(p *pair, r podRow, wide bool) {
	cells := []string{p.ref.GetNamespace(), p.ref.GetName(), p.source(), r.status, r.ready, r.restarts, r.age}
	if wide {
		cells = append(cells, r.ip, p.ref.GetUid(), r.worker, r.message)
	}
	t.row(cells...)
}

// listDesired lists podconfigd's pods. Its pages show one revision; if that is gone before the last page, it starts again.
func (t *tool) listDesired(ctx context.Context, filter *podconfigv1.PodFilter) ([]*podconfigv1.Pod, error) {
	conn, err := t.podconfigd.connect(t.userAgent())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	client := podconfigv1.NewPodConfigServiceClient(conn)
	list := func() ([]*podconfigv1.Pod, error) {
		return allPages(func(token string) ([]*podconfigv1.Pod, string, error) {
			resp, err := client.ListPods(ctx, &podconfigv1.ListPodsRequest{
				Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, Filter: filter, PageToken: token,
			})
			return resp.GetPods(), resp.GetNextPageToken(), err
		})
	}
	const attempts = 3
	pods, err := list()
	for i := 1; i < attempts && status.Code(err) == codes.Aborted; i++ {
		pods, err = list()
	}
	if err != nil {
		return nil, conn.explain(err)
	}
	return pods, nil
}

// listObserved lists podexecd's pods.
func (t *tool) listObserved(ctx context.Context, filter *podconfigv1.PodFilter) ([]*podexecv1.ObservedPod, error) {
	conn, err := t.podexecd.connect(t.userAgent())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	client := podexecv1.NewPodExecServiceClient(conn)
	pods, err := allPages(func(token string) ([]*podexecv1.ObservedPod, string, error) {
		resp, err := client.ListPods(ctx, &podexecv1.ListPodsRequest{
			Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, Filter: filter, PageToken: token,
		})
		return resp.GetPods(), resp.GetNextPageToken(), err
	})
	if err != nil {
		return nil, conn.explain(err)
	}
	return pods, nil
}

// allPages calls fetch until there is no next page.
func allPages[T any](fetch func(token string) (items []T, next string, err error)) ([]T, error) {
	var all []T
	token := ""
	for {
		items, next, err := fetch(token)
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
		switch next {
		case "":
			return all, nil
		case token:
			return nil, status.Error(codes.Internal, fmt.Sprintf("page %q names itself as the next one", token))
		}
		token = next
	}
}
