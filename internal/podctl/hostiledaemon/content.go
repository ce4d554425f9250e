package hostiledaemon

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
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

// content returns a pod or a status with these texts, in Kubernetes' protobuf, whose texts need not be UTF-8, or in JSON.
func (f filler) content(field protoreflect.FieldDescriptor, texts []string) protoreflect.Value {
	text, inJSON := strings.Join(texts, " "), field.Kind() != protoreflect.BytesKind
	if inJSON {
		text = valid(text)
	}
	var object interface{ Marshal() ([]byte, error) }
	if field.ContainingMessage().Name() == "ObservedPod" {
		status := &corev1.PodStatus{}
		fillValue(reflect.ValueOf(status).Elem(), text, 0)
		object = status
	} else {
		pod := Pod(text)
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

// Pod returns a pod with the text in each of its fields.
func Pod(text string) *corev1.Pod {
	pod := &corev1.Pod{}
	fillValue(reflect.ValueOf(pod).Elem(), text, 0)
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	return pod
}

// fillValue sets every text in a value, one element of every list, and one entry of every map.
func fillValue(v reflect.Value, text string, depth int) {
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
		v.Set(reflect.ValueOf(intstr.FromString(text)))
		return
	case *metav1.FieldsV1:
		return // It is JSON.
	}
	if depth > maxDepth {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(3)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillValue(v.Elem(), text, depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillValue(v.Field(i), text, depth+1)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillValue(v.Index(0), text, depth+1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillValue(key, text, depth+1)
		fillValue(value, text, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	default:
	}
}
