package nodeinfo

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// defaultEvictionHard has those of the kubelet's default thresholds that reduce the allocatable resources.
var defaultEvictionHard = map[string]string{memoryAvailable: "100Mi", nodefsAvailable: "10%"}

// The signals whose hard thresholds reduce the allocatable resources: beyond them pods would be evicted.
const (
	memoryAvailable = "memory.available"
	nodefsAvailable = "nodefs.available"
)

// allocatable returns the capacity less reservations and hard eviction thresholds, and the memory less all huge pages
// too, which the kernel has set aside. bound is the capacity less reservations.
func allocatable(capacity v1.ResourceList, s Settings) (left, bound v1.ResourceList, err error) {
	kube, err := Reservation("kubeReserved", s.KubeReserved)
	if err != nil {
		return nil, nil, err
	}
	system, err := Reservation("systemReserved", s.SystemReserved)
	if err != nil {
		return nil, nil, err
	}
	eviction, err := evictionReservation(s.EvictionHard, capacity)
	if err != nil {
		return nil, nil, err
	}
	left, bound = v1.ResourceList{}, v1.ResourceList{}
	var pages resource.Quantity
	var mistakes []error
	for _, name := range slices.Sorted(maps.Keys(capacity)) {
		has := capacity[name]
		rest := has.DeepCopy()
		rest.Sub(kube[name])
		rest.Sub(system[name])
		bound[name] = rest.DeepCopy()
		rest.Sub(eviction[name])
		if rest.Sign() < 0 {
			reserved := has.DeepCopy()
			reserved.Sub(rest)
			mistakes = append(mistakes, fmt.Errorf("of %s, %s is reserved, and the node has %s", name, &reserved, &has))
		}
		if isHugePages(name) {
			pages.Add(has)
		}
		left[name] = rest
	}
	if memory, known := left[v1.ResourceMemory]; known {
		memory.Sub(pages)
		if memory.Sign() < 0 {
			memory.Set(0)
		}
		left[v1.ResourceMemory] = memory
	}
	return left, bound, errors.Join(mistakes...)
}

// Reservation parses one of the configuration's reservations.
func Reservation(field string, list map[string]string) (v1.ResourceList, error) {
	out := v1.ResourceList{}
	for name, value := range list {
		switch v1.ResourceName(name) {
		case v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, pidResource:
		default:
			return nil, fmt.Errorf("%s: %s can't be reserved", field, name)
		}
		q, err := resource.ParseQuantity(value)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %q: %w", field, name, value, err)
		}
		if q.Sign() < 0 {
			return nil, fmt.Errorf("%s.%s: %q is negative", field, name, value)
		}
		out[v1.ResourceName(name)] = q
	}
	return out, nil
}

// evictionReservation returns the hard eviction thresholds, so that no pod is evicted while all stay within their
// requests.
func evictionReservation(hard map[string]string, capacity v1.ResourceList) (v1.ResourceList, error) {
	if hard == nil {
		hard = defaultEvictionHard
	}
	out := v1.ResourceList{}
	for signal, name := range map[string]v1.ResourceName{memoryAvailable: v1.ResourceMemory, nodefsAvailable: v1.ResourceEphemeralStorage} {
		value, set := hard[signal]
		if !set {
			continue
		}
		has := capacity[name]
		q, err := threshold(value, has.Value())
		if err != nil {
			return nil, fmt.Errorf("evictionHard[%s]: %q: %w", signal, value, err)
		}
		out[name] = q
	}
	return out, nil
}

// threshold parses an amount, or a share of the capacity. Shares of 0% and 100% mean that there is no threshold.
func threshold(value string, capacity int64) (resource.Quantity, error) {
	share, percent := strings.CutSuffix(value, "%")
	if !percent {
		q, err := resource.ParseQuantity(value)
		if err == nil && q.Sign() <= 0 {
			err = errors.New("it must be more than nothing")
		}
		return q, err
	}
	p, err := strconv.ParseFloat(share, 64)
	switch {
	case err != nil:
		return resource.Quantity{}, err
	case math.IsNaN(p) || p < 0 || p > 100:
		return resource.Quantity{}, errors.New("it must be from 0% to 100%")
	case p == 100:
		p = 0
	}
	return *resource.NewQuantity(int64(float64(capacity)*p/100), resource.BinarySI), nil
}

func isHugePages(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}
