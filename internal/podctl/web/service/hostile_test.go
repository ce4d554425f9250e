package service_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/client/stream"
	"github.com/podstream/podstream/internal/hostiletext"
	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/internal/podctl/web/board"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/webtest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// fill puts text into every string of a message and of the messages below it.
func fill(m proto.Message, text string) {
	r := m.ProtoReflect()
	fields := r.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		switch {
		case field.Kind() == protoreflect.MessageKind && field.Message().FullName() == "google.protobuf.Timestamp",
			field.Kind() == protoreflect.MessageKind && field.Message().FullName() == "google.protobuf.Duration",
			field.Kind() == protoreflect.MessageKind && field.Message().FullName() == "google.protobuf.Struct":
		case field.IsList() && field.Kind() == protoreflect.StringKind:
			r.Mutable(field).List().Append(protoreflect.ValueOfString(text))
		case field.Kind() == protoreflect.StringKind:
			r.Set(field, protoreflect.ValueOfString(text))
		case field.IsList() && field.Kind() == protoreflect.MessageKind:
			list := r.Mutable(field).List()
			element := list.NewElement()
			fill(element.Message().Interface(), text)
			list.Append(element)
		case field.Kind() == protoreflect.MessageKind && field.ContainingOneof() == nil:
			fill(r.Mutable(field).Message().Interface(), text)
		}
	}
}

// hostilePod has the text wherever a pod of the API has one that is shown.
func hostilePod(text string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: text, Name: text, Labels: map[string]string{text: text}, Annotations: map[string]string{text: text},
		},
		Spec: corev1.PodSpec{
			NodeName: text, Containers: []corev1.Container{{Name: text, Image: text, Command: []string{text}}},
			InitContainers: []corev1.Container{{Name: text, Image: text}},
		},
	}
}

// wantHarmless fails if a string of a message has a character that acts.
func wantHarmless(t *testing.T, what string, m proto.Message) (found int) {
	t.Helper()
	err := protorange.Range(m.ProtoReflect(), func(values protopath.Values) error {
		text, ok := values.Index(-1).Value.Interface().(string)
		if !ok {
			return nil
		}
		if strings.Contains(text, "pwned") {
			found++
		}
		podctltest.CheckHarmless(t, what+" "+values.Path[1:].String(), strings.NewReplacer("\t", "", "\n", "").Replace(text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestHostileText: whatever stands in pods, statuses, events, sources, findings, consumers and their errors, what the page gets is
// harmless; and the page gets it.
func TestHostileText(t *testing.T) {
	testHostileText(t, podctltest.Hostile, podctltest.Hostile)
	for _, s := range hostiletext.Named() {
		// The word is by which the text is found again.
		text := "pwned " + s.Text
		t.Run(s.Name, func(t *testing.T) { testHostileText(t, strings.ToValidUTF8(text, "\ufffd"), text) })
	}
}

// testHostileText has a text in each field of messages, which is UTF-8 there, and raw in pods and statuses, which need not be.
func testHostileText(t *testing.T, text, raw string) {
	t.Helper()
	pod := podctltest.Desired(t, text, hostilePod(raw))
	pod.Ref = &podconfigv1.PodRef{Namespace: text, Name: text, Uid: text}
	pod.SpecDigest = text
	changed := proto.CloneOf(pod)
	changed.SpecDigest = "other"
	observed := podctltest.Observed(t, "default", "x", &corev1.PodStatus{
		Phase: corev1.PodPhase(raw), Message: raw, Reason: raw, PodIP: raw,
		ContainerStatuses: []corev1.ContainerStatus{
			podctltest.Waiting(raw, raw, raw), {Name: raw, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: raw, Message: raw}}},
		},
	})
	observed.Ref = pod.Ref
	observed.LastError, observed.WaitsFor, observed.Source = text, text, text
	observed.Pulls = []*podexecv1.ImagePull{{Image: text}}
	source, consumer, event := &podconfigv1.Source{}, &podconfigv1.Consumer{}, &podexecv1.PodEvent{}
	for _, m := range []proto.Message{source, consumer, event} {
		fill(m, text)
	}
	event.Ref = pod.GetRef()

	f := start(t, nil)
	f.publish(1, opAdd, pod)
	f.publish(2, podconfigv1.PodOperation_POD_OPERATION_UPDATE, changed)
	f.board.ApplyDesired(false, board.Published{
		Revision: &stream.Revision{Updates: []*podconfigv1.PodUpdate{{Op: opAdd, Source: text}}}, Cursor: &podconfigv1.Cursor{Revision: 3, InstanceId: text},
	})
	f.board.ApplyObserved([]*podexecv1.ObservedPod{observed}, nil, true)
	f.board.ApplySources(t.Context(), []*podconfigv1.Source{source})
	f.board.ApplyConsumers([]*podconfigv1.Consumer{consumer})
	f.board.ApplyEvent(event)
	f.board.AddStats(&podwebv1.StatsSample{})
	for _, link := range []*board.Link{f.board.Desired, f.board.Observed, f.board.SourcesLink} {
		link.Broken(text)
	}

	topics := map[string]*podwebv1.Topic{
		"timeline": timelineTopic(100), "pods": podsTopic(),
		"sources":   {Topic: &podwebv1.Topic_Sources{Sources: &podwebv1.SourcesTopic{}}},
		"consumers": {Topic: &podwebv1.Topic_Consumers{Consumers: &podwebv1.ConsumersTopic{}}},
		"events":    {Topic: &podwebv1.Topic_Events{Events: &podwebv1.EventsTopic{}}},
		"nodes":     {Topic: &podwebv1.Topic_Nodes{Nodes: &podwebv1.NodesTopic{}}},
	}
	for name, topic := range topics {
		tab := webtest.NewTab(t, f.client, sub(name, topic, ""))
		d := tab.Until(name, func(d *podwebv1.Delivery) bool { return d.GetReset_() && !d.GetMore() })
		if found := wantHarmless(t, name, d); found == 0 {
			t.Errorf("%s shows nothing of the text: %v", name, d)
		}
		tab.Close()
	}
	details, err := f.client.GetPod(t.Context(), &podwebv1.GetPodRequest{Key: board.Key("pod", text)})
	if err != nil {
		t.Fatal(err)
	}
	if found := wantHarmless(t, "GetPod", details); found < 5 || details.GetDesiredYaml() == "" || details.GetObservedYaml() == "" {
		t.Errorf("GetPod shows %d strings of the text: %v", found, details)
	}
	session, err := f.client.GetSession(t.Context(), &podwebv1.GetSessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	wantHarmless(t, "GetSession", session)
}
