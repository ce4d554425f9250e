package podctl

import (
	"strconv"

	"github.com/podstream/podstream/internal/podctl/kubeobject"
	"github.com/podstream/podstream/internal/podctl/podsummary"
	"github.com/podstream/podstream/internal/podctl/render"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// eventPrinter prints events as rows, or as documents.
type eventPrinter struct {
	tool *tool
	// follow is set if events are printed as they come, and not all at the end.
	follow bool
	// objects is set if documents are v1.Events.
	objects bool
	// table is nil for documents.
	table     *render.Table
	documents *render.Documents
	// list is printed by end.
	list    []*podexecv1.PodEvent
	printed bool
}

func (t *tool) newEventPrinter(o eventsOptions) *eventPrinter {
	p := &eventPrinter{tool: t, follow: o.follow, objects: o.objects}
	if !t.output.IsTable() {
		p.documents = t.documents("")
		p.documents.Stream = o.follow
		return p
	}
	header := []string{"NAMESPACE", "LAST SEEN", "TYPE", "REASON", "OBJECT", "CONTAINER", "MESSAGE"}
	if t.output == render.WideFormat {
		header = []string{"NAMESPACE", "LAST SEEN", "TYPE", "REASON", "OBJECT", "SUBOBJECT", "MESSAGE", "FIRST SEEN", "COUNT"}
	}
	p.table = t.newTable(header...)
	return p
}

// document is an event in JSON.
func (p *eventPrinter) document(e *podexecv1.PodEvent) any {
	if p.objects {
		return kubeobject.Event(e)
	}
	return render.Proto{Message: e}
}

// print prints one event, at once if follow is set.
func (p *eventPrinter) print(e *podexecv1.PodEvent) error {
	p.printed = true
	switch {
	case !p.follow:
		p.list = append(p.list, e)
		return nil
	case p.table == nil:
		return p.documents.Print(p.document(e))
	}
	p.row(e)
	return p.table.Flush()
}

// row adds an event to the table.
func (p *eventPrinter) row(e *podexecv1.PodEvent) {
	last, object := podsummary.Age(p.tool.Clock.Now(), e.GetLastTime()), "pod/"+e.GetRef().GetName()
	if p.tool.output == render.WideFormat {
		p.table.Row(e.GetRef().GetNamespace(), last, e.GetType(), e.GetReason(), object, kubeobject.ContainerField(e.GetContainer()), e.GetMessage(),
			podsummary.Age(p.tool.Clock.Now(), e.GetFirstTime()), strconv.Itoa(int(e.GetCount())))
	} else {
		p.table.Row(e.GetRef().GetNamespace(), last, e.GetType(), e.GetReason(), object, e.GetContainer(), e.GetMessage())
	}
}

// end prints the list.
func (p *eventPrinter) end() error {
	if p.follow {
		return nil
	}
	list, err := sorted(p.tool, p.list, p.document)
	if err != nil {
		return err
	}
	if p.table != nil {
		for _, e := range list {
			p.row(e)
		}
		return p.table.Flush()
	}
	documents := make([]any, len(list))
	for i, e := range list {
		documents[i] = p.document(e)
	}
	if p.objects {
		return p.documents.Print(kubeobject.NewList(documents))
	}
	return p.documents.Print(struct {
		Events []any `json:"events"`
	}{documents})
}
