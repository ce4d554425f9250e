package apiserver

import (
	"bytes"
	"slices"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

// FuzzWatchFrames answers a watch with any bytes. A pod that was read before, and that the bytes don't name,
// stays. The source then continues with the server's later pods.
func FuzzWatchFrames(f *testing.F) {
	event := func(kind, object string) []byte { return []byte(`{"type":"` + kind + `","object":` + object + "}\n") }
	pod := func(meta string) string {
		return `{"kind":"Pod","apiVersion":"v1","metadata":` + meta + `,"spec":{"nodeName":"n1"}}`
	}
	const json, protobuf = false, true
	other := pod(`{"namespace":"ns","name":"other","uid":"u","resourceVersion":"7"}`)
	f.Add(json, event("ADDED", other))
	f.Add(json, slices.Concat(event("ADDED", other), event("MODIFIED", other), event("DELETED", other)))
	f.Add(json, event("BOOKMARK", pod(`{"resourceVersion":"99999999"}`)))
	f.Add(json, event("BOOKMARK", pod(`{"resourceVersion":"no number"}`)))
	f.Add(json, event("BOOKMARK", pod(`{"resourceVersion":"1"}`)))
	f.Add(json, event("BOOKMARK", pod(`{"resourceVersion":"3","annotations":{"k8s.io/initial-events-end":"true"}}`)))
	f.Add(json, event("ADDED", pod(`{}`)))
	f.Add(json, event("ADDED", `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s"}}`))
	f.Add(json, event("ERROR", `{"kind":"Status","apiVersion":"v1","status":"Failure","code":410,"reason":"Expired"}`))
	f.Add(json, event("ERROR", `{"kind":"Status","apiVersion":"v1","status":"Failure","code":429,"reason":"TooManyRequests"}`))
	f.Add(json, event("ADDED", other)[:40])
	f.Add(json, []byte("no JSON"))
	f.Add(protobuf, protobufFrame(f, watch.Added, withUID(newPod("other"), "u")))
	f.Add(protobuf, slices.Concat(
		protobufFrame(f, watch.Modified, withUID(newPod("other"), "u")), protobufFrame(f, watch.Deleted, withUID(newPod("other"), "u"))))
	f.Add(protobuf, protobufFrame(f, watch.Bookmark, &v1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "99"}}))
	f.Add(protobuf, []byte("\x00\x00\x00\x04junk"))
	f.Add(protobuf, []byte("\x00\x00\x00\x0a\x0a\x05ADDED\x12\x01k"))
	f.Add(protobuf, []byte("\xff\xff\xff\xff"))

	f.Fuzz(func(t *testing.T, binary bool, frames []byte) {
		reply := &apitest.Reply{ContentType: "application/json", Body: frames}
		if binary {
			reply.ContentType = "application/vnd.kubernetes.protobuf;stream=watch"
		}
		server := apitest.New(t, apitest.Config{})
		server.Put(newPod("kept"))
		// The first watch that isn't a streaming list is answered with the bytes.
		var answered atomic.Bool
		server.Answer(func(r apitest.Request) *apitest.Reply {
			if r.Verb == "watch" && !r.InitialEvents && answered.CompareAndSwap(false, true) {
				return reply
			}
			return nil
		})
		server.WatchList(apitest.WatchListForbidden)
		r := start(t, ofCluster(t, server, ""))
		set, at := r.await("the first set", 0, func(s manifest.Set) bool { return s.Err == nil })
		if !slices.Contains(originNames(set), "ns/kept") {
			t.Fatalf("the first set is %s", describe(set))
		}
		server.Await("the bytes", func(apitest.View) bool { return answered.Load() })
		server.AwaitWatches("pods", 1)
		// The bytes may have a version of the future. A watch from there misses the events before, which a probe finds.
		checks := server.View().Answered(isCheck)
		server.Await("a probe, beside the checks of watches", func(v apitest.View) bool { return v.Answered(isCheck) >= checks+8 })
		server.Put(newPod("after"))
		r.await("the pod that was added after the bytes", at, func(s manifest.Set) bool { return slices.Contains(originNames(s), "ns/after") })
		if bytes.Contains(frames, []byte("kept")) || bytes.Contains(frames, []byte(`\`)) {
			return // the bytes may have deleted it
		}
		sets, _ := r.all()
		for _, set := range sets {
			if set.Err == nil && !slices.Contains(originNames(set), "ns/kept") {
				t.Fatalf("a set without the pod that always existed: %s", describe(set))
			}
		}
	})
}

// protobufFrame returns one event in an API server's frame.
func protobufFrame(t testing.TB, kind watch.EventType, pod *v1.Pod) []byte {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		t.Fatal("there is no protobuf")
	}
	pod.SetGroupVersionKind(v1.SchemeGroupVersion.WithKind("Pod"))
	var object, event, frame bytes.Buffer
	if err := info.Serializer.Encode(pod, &object); err != nil {
		t.Fatal(err)
	}
	watched := &metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: object.Bytes()}}
	if err := info.StreamSerializer.Encode(watched, &event); err != nil {
		t.Fatal(err)
	}
	if _, err := info.StreamSerializer.Framer.NewFrameWriter(&frame).Write(event.Bytes()); err != nil {
		t.Fatal(err)
	}
	return frame.Bytes()
}
