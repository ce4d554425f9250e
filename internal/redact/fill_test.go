package redact_test

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// secret is a text in which each rule finds something to redact: it is a YAML object, has a login and has a query.
const secret = "{a@b?c}"

// filledPod has a text in every field that takes one, two in every list, and one of each kind of everything else.
func filledPod() *v1.Pod {
	p := &v1.Pod{}
	fill(reflect.ValueOf(p).Elem())
	return p
}

func fill(v reflect.Value) {
	switch v.Interface().(type) {
	case metav1.Time, resource.Quantity, intstr.IntOrString:
		return
	case []byte:
		v.SetBytes([]byte(strconv.Quote(secret))) // it has to be JSON
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(secret)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Map:
		element := reflect.New(v.Type().Elem()).Elem()
		fill(element)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), element)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	}
}

// flatten puts each text of the pod's JSON under its path. Lists of objects have two equal elements, which share a
// path.
func flatten(t *testing.T, p *v1.Pod, into map[string]string) {
	t.Helper()
	var tree any
	if err := json.Unmarshal([]byte(encoded(t, p)), &tree); err != nil {
		t.Fatal(err)
	}
	flattenValue(tree, "", into)
}

var index = regexp.MustCompile(`\[\d\]\.`)

func flattenValue(v any, path string, into map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			flattenValue(field, strings.TrimPrefix(path+"."+name, "."), into)
		}
	case []any:
		for i, element := range v {
			flattenValue(element, path+"["+strconv.Itoa(i)+"]", into)
		}
	case string:
		into[index.ReplaceAllString(path, "[].")] = v
	}
}

func encoded(t *testing.T, p *v1.Pod) string {
	t.Helper()
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
