package hostiledaemon

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// noon is the time of everything.
var noon = timestamppb.New(time.Date(2026, 3, 1, 12, 0, 1, 0, time.UTC))

// isContent reports whether a field has a pod, a status or an object.
func isContent(field protoreflect.FieldDescriptor) bool {
	return field.Name() == "json" || field.Name() == "protobuf"
}

// content returns a pod or a status with these texts in its fields, in turn, in Kubernetes' protobuf, whose texts need not be UTF-8, or in JSON.
func (f filler) content(field protoreflect.FieldDescriptor, texts []string) protoreflect.Value {
	inJSON := field.Kind() != protoreflect.BytesKind
	if inJSON {
		texts = slices.Clone(texts)
		for i := range texts {
			texts[i] = valid(texts[i])
		}
	}
	var object interface{ Marshal() ([]byte, error) }
	if field.ContainingMessage().Name() == "ObservedPod" {
		status := &corev1.PodStatus{}
		(&rotation{texts: texts}).fill(reflect.ValueOf(status).Elem(), 0)
		object = status
	} else {
		pod := Pod(texts...)
		if f.name != "" {
			pod.Name = f.name
		}
		pod.Annotations["method"] = f.method // Two methods give two versions of a pod.
		object = pod
	}
	if !inJSON {
		data, err := object.Marshal()
		if err != nil {
			panic(fmt.Sprintf("hostiledaemon: %v", err))
		}
		return protoreflect.ValueOfBytes(data)
	}
	out := &structpb.Struct{}
	data, err := json.Marshal(object)
	if err == nil {
		err = out.UnmarshalJSON(data)
	}
	if err != nil {
		panic(fmt.Sprintf("hostiledaemon: %v", err))
	}
	return protoreflect.ValueOfMessage(out.ProtoReflect())
}

// Pod returns a pod with one of the texts in each of its fields, in turn.
func Pod(texts ...string) *corev1.Pod {
	pod := &corev1.Pod{}
	(&rotation{texts: texts}).fill(reflect.ValueOf(pod).Elem(), 0)
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	return pod
}

// rotation gives one text after the other.
type rotation struct {
	texts []string
	next  int
}

func (r *rotation) text() string {
	r.next++
	return r.texts[r.next%len(r.texts)]
}

// fill sets every text in a value, one element of every list, and one entry of every map.
func (r *rotation) fill(v reflect.Value, depth int) {
	const maxDepth = 12
	switch v.Addr().Interface().(type) {
	case *metav1.Time:
		v.Set(reflect.ValueOf(metav1.NewTime(noon.AsTime())))
		return
	case *metav1.MicroTime:
		v.Set(reflect.ValueOf(metav1.NewMicroTime(noon.AsTime())))
		return
	case *resource.Quantity:
		v.Set(reflect.ValueOf(resource.MustParse("1")))
		return
	case *intstr.IntOrString:
		v.Set(reflect.ValueOf(intstr.FromString(r.text())))
		return
	case *metav1.FieldsV1:
		return // It is JSON.
	}
	if depth > maxDepth {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(r.text())
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(3)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		r.fill(v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				r.fill(v.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		r.fill(v.Index(0), depth+1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		r.fill(key, depth+1)
		r.fill(value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	default:
	}
}
