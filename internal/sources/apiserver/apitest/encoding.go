package apitest

import (
	"bytes"
	"mime"
	"net/http"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	kwatch "k8s.io/apimachinery/pkg/watch"
)

var kinds = map[string]schema.GroupVersionKind{
	"pods":       v1.SchemeGroupVersion.WithKind("Pod"),
	"configmaps": v1.SchemeGroupVersion.WithKind("ConfigMap"),
	"secrets":    v1.SchemeGroupVersion.WithKind("Secret"),
	"nodes":      v1.SchemeGroupVersion.WithKind("Node"),
	"services":   v1.SchemeGroupVersion.WithKind("Service"),
}

var codecs = func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, v1.SchemeGroupVersion)
	if err := v1.AddToScheme(scheme); err != nil {
		panic(err) // two types of one name: a bug in this program
	}
	return serializer.NewCodecFactory(scheme)
}()

// encoding is the encoding that a client requested.
type encoding struct {
	runtime.SerializerInfo
	// metadata: of the items of a list, or of the objects of a watch, only the metadata is requested.
	metadata bool
}

// negotiate returns the first media type of the Accept header that the server has.
func negotiate(r *http.Request) (encoding, bool) {
	accept := r.Header.Get("Accept")
	if accept == "" {
		accept = "*/*"
	}
	for part := range strings.SplitSeq(accept, ",") {
		media, parameters, err := mime.ParseMediaType(strings.TrimSpace(part))
		as := parameters["as"]
		if err != nil || as != "" && (as != "PartialObjectMetadataList" && as != "PartialObjectMetadata" || parameters["g"] != metav1.GroupName || parameters["v"] != "v1") {
			continue
		}
		if media == "*/*" || media == "application/*" {
			media = runtime.ContentTypeJSON
		}
		if info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), media); ok && info.StreamSerializer != nil {
			return encoding{info, as != ""}, true
		}
	}
	return encoding{}, false
}

// contentType is that of objects, or of the frames of a watch.
func (e encoding) contentType(watch bool) string {
	if watch && !e.EncodesAsText {
		return e.MediaType + ";stream=watch"
	}
	return e.MediaType
}

// object is an object's bytes. Its kind is set.
func (e encoding) object(o runtime.Object) ([]byte, error) {
	var b bytes.Buffer
	err := e.Serializer.Encode(o, &b)
	return b.Bytes(), err
}

// frame is a watch event's bytes, framed.
func (e encoding) frame(kind kwatch.EventType, o runtime.Object) ([]byte, error) {
	if accessor, err := meta.Accessor(o); err == nil && e.metadata {
		partial := meta.AsPartialObjectMetadata(accessor)
		partial.TypeMeta = metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}
		o = partial
	}
	object, err := e.object(o)
	if err != nil {
		return nil, err
	}
	var event, framed bytes.Buffer
	watched := &metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: object}}
	if err := e.StreamSerializer.Encode(watched, &event); err != nil {
		return nil, err
	}
	_, err = e.StreamSerializer.Framer.NewFrameWriter(&framed).Write(event.Bytes())
	return framed.Bytes(), err
}
