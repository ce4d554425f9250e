package manifest

import (
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestQuantityKeys: no quantity of a v1.PodSpec stands under a key that findQuantityAt doesn't know. One that does
// could hold "1e-999999999" and stop the daemon.
func TestQuantityKeys(t *testing.T) {
	known := map[string]bool{"limits": true, "requests": true, "overhead": true, "sizeLimit": true, "divisor": true}
	seen, found := map[reflect.Type]bool{}, 0
	var walk func(of reflect.Type, path []string)
	walk = func(of reflect.Type, path []string) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(of.Elem(), path)
			return
		case reflect.Struct:
		default:
			return
		}
		if of == reflect.TypeFor[resource.Quantity]() {
			found++
			if !known[path[len(path)-1]] {
				t.Errorf("%s is a quantity", strings.Join(path, "."))
			}
			return
		}
		if seen[of] {
			return
		}
		seen[of] = true
		defer delete(seen, of)
		for i := range of.NumField() {
			f := of.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			below := path
			if name != "" {
				below = append(path[:len(path):len(path)], name)
			}
			walk(f.Type, below)
		}
	}
	walk(reflect.TypeFor[v1.PodSpec](), []string{"spec"})
	if found == 0 {
		t.Error("no quantity was found")
	}
}

// TestHugeQuantity: a quantity that would keep apimachinery busy for hours is refused at once, wherever and however
// it is written.
func TestHugeQuantity(t *testing.T) {
	for _, spec := range []string{
		`"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"1e-999999999"}}}]`,
		`"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"1\u0065-999999999"}}}]`,
		`"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":1e-300}}}]`,
		`"containers":[{"name":"c","image":"i"}],"overhead":{"cpu":"1E999999999"}`,
		`"containers":[{"name":"c","image":"i"}],"volumes":[{"name":"v","emptyDir":{"sizeLimit":"1e-999999999"}}]`,
		`"containers":[{"name":"c","image":"i"}],"volumes":[{"name":"v","emptyDir":{"medium":"HugePages-1e-999999999"}}]`,
		`"containers":[{"name":"c","image":"i","resources":{"limits":{"memory":1,"hugepages-1e-99999999":1}}}]`,
		`"containers":[{"name":"c","image":"i","resources":{"limits":{"memory":1,"hugepages-1e999999":1}}}]`,
		`"containers":[{"name":"c","image":"i","resources":{"limits":{"memory":1,"hugepages-1e64":1}}}]`,
		`"containers":[{"name":"c","image":"i"}],"resources":{"limits":{"memory":"` + strings.Repeat("9", 1000) + `"}}`,
	} {
		o := Parse([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{`+spec+`}}`), fileOptions)
		checkOrigin(t, o)
		if len(o.Findings) != 1 || o.Findings[0].Severity != Error || o.Findings[0].Field == "" {
			t.Errorf("%s: %s", spec, summary(o))
		}
	}
	// Overridden values, and a status, aren't decoded at all.
	o := Parse([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}],`+
		`"overhead":{"cpu":"1e-999999999"},"overhead":{"cpu":1}},"status":{"allocatedResources":{"cpu":"1e-999999999"}}}`), fileOptions)
	checkOrigin(t, o)
	if len(o.Pods) != 1 {
		t.Error(summary(o))
	}
}
