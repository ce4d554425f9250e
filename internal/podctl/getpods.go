package podctl

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podstream/podstream/internal/podctl/kubeobject"
	"github.com/podstream/podstream/internal/podctl/podsummary"
	"github.com/podstream/podstream/internal/podctl/render"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// The fields that a field selector takes.
var (
	podFieldNames   = kubeobject.PodFields(&corev1.Pod{})
	eventFieldNames = kubeobject.EventFields(&podexecv1.PodEvent{})
)

// gotPod is a pod of `podctl get`.
type gotPod struct {
	pair   *podsummary.Pod
	object *corev1.Pod
}

// getPods prints pods in kubectl's columns, and as v1.Pods in documents.
func (t *tool) getPods(ctx context.Context, o getOptions, names []string) error {
	if err := o.fields.check(podFieldNames); err != nil {
		return err
	}
	q := t.query(ctx, o.pods, names)
	if o.pods.watch {
		if o.pods.mirrors {
			return errMirrorsWatched
		}
		if o.fields.Selector != nil || o.showLabels || !t.output.IsTable() {
			return errors.New("get --watch has neither --field-selector, --show-labels nor -o: see podctl pods --watch")
		}
		return t.newPodsWatcher(q).run(ctx)
	}
	pods, failed := t.bothHalves(ctx, q)
	if pods.have == (podsummary.Answered{}) {
		return failed
	}
	var got []gotPod
	for _, pair := range pods.pairs {
		object := kubeobject.Pod(pair)
		if o.fields.Selector == nil || o.fields.Matches(kubeobject.PodFields(object)) {
			got = append(got, gotPod{pair, object})
		}
	}
	if failed == nil {
		failed = t.missingPods(ctx, o, names, got)
	}
	if len(names) > 0 && len(got) == 0 {
		return failed
	}
	got, err := sorted(t, got, func(p gotPod) any { return p.object })
	if err == nil {
		err = t.printGot(got, o, len(names) == 1, pods.have)
	}
	return errors.Join(err, failed)
}

// missingPods returns an error for each name that no pod has.
func (t *tool) missingPods(ctx context.Context, o getOptions, names []string, got []gotPod) error {
	var errs []error
	for _, name := range names {
		p := podName{namespace: defaultNamespace}
		if len(o.pods.namespaces) > 0 {
			p.namespace = oneNamespace(o.pods.namespaces[0])
		}
		p.set(name)
		candidates := t.names(ctx, p)
		if !slices.ContainsFunc(got, func(g gotPod) bool { return slices.Contains(candidates, g.object.Name) }) {
			errs = append(errs, t.noSuchPod(ctx, p))
		}
	}
	return errors.Join(errs...)
}

// printGot prints pods; one that was named is no list.
func (t *tool) printGot(pods []gotPod, o getOptions, named bool, have podsummary.Answered) error {
	if !t.output.IsTable() {
		if named && len(pods) == 1 {
			return t.documents("pod").Print(pods[0].object)
		}
		objects := make([]*corev1.Pod, len(pods))
		for i, p := range pods {
			objects[i] = p.object
		}
		return t.documents("pod").Print(kubeobject.NewList(objects))
	}
	if len(pods) == 0 {
		t.note("no pods found%s", inNamespaces(o.pods.filter()))
		return nil
	}
	// As in kubectl, the column of the namespace is left out if there is one namespace.
	oneNamespace := len(o.pods.namespaces) == 1 && !o.pods.allNamespaces
	wide := t.output == render.WideFormat
	row := func(namespace string, cells, more []string, labels string) []string {
		if !oneNamespace {
			cells = append([]string{namespace}, cells...)
		}
		if wide {
			cells = append(cells, more...)
		}
		if o.showLabels {
			cells = append(cells, labels)
		}
		return cells
	}
	table := t.newTable(row("NAMESPACE", []string{"NAME", "READY", "STATUS", "RESTARTS", "AGE"}, []string{"IP", "NODE", "SOURCE", "MESSAGE"}, "LABELS")...)
	for _, p := range pods {
		r := p.pair.Row(have, t.Clock.Now())
		table.Row(row(p.object.Namespace, []string{p.object.Name, r.Ready, r.Status, r.Restarts, r.Age},
			[]string{r.IP, p.object.Spec.NodeName, p.pair.Source(), r.Message}, labels.FormatLabels(p.object.Labels))...)
	}
	return table.Flush()
}
