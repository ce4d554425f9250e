package podctl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/podctl/podsummary"
	"github.com/podstream/podstream/internal/podctl/render"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// podsOptions are the flags of pods.
type podsOptions struct {
	namespaces    namespaceList
	allNamespaces bool
	watch         bool
}

func (t *tool) podsCommand() *cobra.Command {
	var o podsOptions
	cmd := &cobra.Command{
		Use:   "pods [POD...]",
		Short: "Show the pods that should run here beside those that run",
		Long: `Pods shows the pods that should run on this node, from podconfigd, beside their state, from podexecd.

With --watch it shows podexecd's pods, and continues with a line for each change of a status, across reconnections, until
Ctrl-C. A pod of which nothing is left is shown as Removed.`,
		Example: `  podctl pods
  podctl pods web -o wide
  podctl pods -n kube-system,default --watch`,
		RunE: func(cmd *cobra.Command, args []string) error {
			filter := t.namedFilter(cmd.Context(), o, args)
			if o.watch {
				return t.newPodsWatcher(filter).run(cmd.Context())
			}
			return t.runPods(cmd.Context(), filter)
		},
	}
	cmd.Flags().VarP(&o.namespaces, "namespace", "n", "only the pods of these `namespaces`")
	cmd.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "the pods of all namespaces, which is the default; wins over -n")
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "continue with every change, as podexecd reports it")
	return cmd
}

func (o podsOptions) filter() *podconfigv1.PodFilter {
	if len(o.namespaces) == 0 || o.allNamespaces {
		return nil
	}
	return &podconfigv1.PodFilter{Namespaces: o.namespaces}
}

// namedFilter returns the filter of a list, with the pods on the command line if any, in all namespaces unless it has
// -n.
func (t *tool) namedFilter(ctx context.Context, o podsOptions, args []string) *podconfigv1.PodFilter {
	filter := o.filter()
	if len(args) == 0 {
		return filter
	}
	if filter == nil {
		filter = &podconfigv1.PodFilter{}
	}
	node := t.nodeName(ctx)
	for _, arg := range args {
		var p podName
		p.set(arg)
		filter.Names = append(filter.Names, p.name, p.name+"-"+node)
	}
	return filter
}

// runPods shows as much as it can get: one of the daemons may not answer.
func (t *tool) runPods(ctx context.Context, filter *podconfigv1.PodFilter) error {
	ctx, cancel := t.listContext(ctx)
	defer cancel()
	var (
		wg                    sync.WaitGroup
		desired               []*podconfigv1.Pod
		observed              []*podexecv1.ObservedPod
		desiredErr, observErr error
	)
	wg.Go(func() { desired, desiredErr = t.listDesired(ctx, filter) })
	wg.Go(func() { observed, observErr = t.listObserved(ctx, filter) })
	wg.Wait()

	have := podsummary.Answered{Podconfigd: desiredErr == nil, Podexecd: observErr == nil}
	failed := errors.Join(desiredErr, observErr)
	if !have.Podconfigd && !have.Podexecd {
		return failed
	}
	pairs, undecodable := podsummary.Join(desired, observed)
	if err := t.printPods(filter, pairs, have); err != nil {
		return err
	}
	return errors.Join(append([]error{failed}, undecodable...)...)
}

func (t *tool) printPods(filter *podconfigv1.PodFilter, pairs []*podsummary.Pod, have podsummary.Answered) error {
	now := t.Clock.Now()
	if !t.output.IsTable() {
		docs := make([]podsummary.Document, len(pairs))
		for i, p := range pairs {
			docs[i] = p.Document(p.Row(have, now))
		}
		return (&render.Documents{Out: t.Stdout, Format: t.output}).Print(struct {
			Pods []podsummary.Document `json:"pods"`
		}{docs})
	}
	if len(pairs) == 0 {
		t.note("no pods found%s", inNamespaces(filter))
		return nil
	}
	out := t.newPodTable(false)
	for _, p := range pairs {
		out.row(p, p.Row(have, now))
	}
	return out.Flush()
}

// inNamespaces returns the namespaces of a list; empty for all.
func inNamespaces(filter *podconfigv1.PodFilter) string {
	switch names := filter.GetNamespaces(); len(names) {
	case 0:
		return ""
	case 1:
		return " in namespace " + names[0]
	default:
		return " in namespaces " + strings.Join(names, ", ")
	}
}

// podTable is a table with a line for each pod.
type podTable struct {
	*render.Table
	// uids is set if each line has the start of the pod's UID. A wide line has the whole UID.
	uids, wide bool
}

// newPodTable makes the table. With uids, lines of two pods with one name can be distinguished.
func (t *tool) newPodTable(uids bool) *podTable {
	p := &podTable{uids: uids, wide: t.output == render.WideFormat}
	header := []string{"NAMESPACE", "NAME", "SOURCE", "STATUS", "READY", "RESTARTS", "AGE"}
	switch {
	case p.wide:
		header = append(header, "IP", "UID", "WORKER", "MESSAGE")
	case p.uids:
		// As wide as the widest later value, so that later lines stay aligned.
		header[3] = "STATUS           "
		header = append(header, "UID      ")
	}
	p.Table = render.NewTable(t.Stdout, header...)
	return p
}

// row adds the line of a pod.
func (t *podTable) row(p *podsummary.Pod, r podsummary.Row) {
	cells := []string{p.Ref.GetNamespace(), p.Ref.GetName(), p.Source(), r.Status, r.Ready, r.Restarts, r.Age}
	switch {
	case t.wide:
		cells = append(cells, r.IP, p.Ref.GetUid(), r.Worker, r.Message)
	case t.uids:
		cells = append(cells, shortened(p.Ref.GetUid(), false))
	}
	t.Table.Row(cells...)
}

// listDesired lists podconfigd's pods. All pages show one revision; if podconfigd drops it before the last page,
// listDesired starts again.
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
