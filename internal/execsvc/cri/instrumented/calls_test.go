package instrumented

import (
	"context"
	"errors"
	"reflect"
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/kubeletmetrics"
	"github.com/podstream/podstream/internal/metrictest"
)

// Every method of the clients is counted with its duration, also one that an update of the CRI adds. The clients are nil
// here: a call panics after it has been counted, and a method that isn't wrapped isn't counted.
func TestEveryCall(t *testing.T) {
	registry := prometheus.NewRegistry()
	runtime, images := New(registry).Around(nil, nil)
	operations := map[string]bool{}
	for _, client := range []struct {
		value any
		kind  reflect.Type
	}{{runtime, reflect.TypeFor[internalapi.RuntimeService]()}, {images, reflect.TypeFor[internalapi.ImageManagerService]()}} {
		for i := range client.kind.NumMethod() {
			name := client.kind.Method(i).Name
			operations[name] = true // Close is an operation of both.
			before := metrictest.Value(t, registry, kubeletmetrics.RuntimeOperations.Name)
			call(client.value, name)
			if got := metrictest.Value(t, registry, kubeletmetrics.RuntimeOperations.Name) - before; got != 1 {
				t.Errorf("a call of %s was counted %v times", name, got)
			}
		}
	}
	if got := metrictest.Count(t, registry, kubeletmetrics.RuntimeOperationsDuration.Name); got != len(operations) {
		t.Errorf("%d operations have a duration; want %d", got, len(operations))
	}
}

// call calls the method with zero values.
func call(client any, name string) {
	defer func() { _ = recover() }()
	method := reflect.ValueOf(client).MethodByName(name)
	var args []reflect.Value
	for i := range method.Type().NumIn() {
		args = append(args, reflect.Zero(method.Type().In(i)))
	}
	method.Call(args)
}

// failing is a runtime that runs no sandbox.
type failing struct{ internalapi.RuntimeService }

func (failing) RunPodSandbox(context.Context, *runtimeapi.PodSandboxConfig, string) (string, error) {
	return "", errors.New("no")
}

// Errors are counted by operation, and those of sandboxes by a bounded number of handlers.
func TestErrors(t *testing.T) {
	registry := prometheus.NewRegistry()
	runtime, _ := New(registry).Around(failing{}, nil)
	for i := range 2 * maxHandlers {
		if _, err := runtime.RunPodSandbox(t.Context(), nil, strconv.Itoa(i)); err == nil {
			t.Fatal("no error")
		}
	}
	metrictest.Want(t, registry, map[string]float64{
		"kubelet_runtime_operations_errors_total{operation_type=run_podsandbox}": 2 * maxHandlers,
		"kubelet_run_podsandbox_duration_seconds{runtime_handler=3}":             1,
		"kubelet_run_podsandbox_errors_total{runtime_handler=other}":             maxHandlers,
	})
	if got := metrictest.Count(t, registry, kubeletmetrics.RunPodSandboxErrors.Name); got != maxHandlers+1 {
		t.Errorf("%d handlers are labels; want %d and one for the others", got, maxHandlers)
	}
}
