package eviction

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Signal is an eviction signal of the kubelet.
type Signal string

// The signals, by their names in a KubeletConfiguration. AllocatableMemoryAvailable is the memory left within the
// limit of all pods' cgroup; its threshold is always the hard one of MemoryAvailable.
const (
	MemoryAvailable            Signal = "memory.available"
	AllocatableMemoryAvailable Signal = "allocatableMemory.available"
	NodeFsAvailable            Signal = "nodefs.available"
	NodeFsInodesFree           Signal = "nodefs.inodesFree"
	ImageFsAvailable           Signal = "imagefs.available"
	ImageFsInodesFree          Signal = "imagefs.inodesFree"
	PIDAvailable               Signal = "pid.available"

	// The thresholds of ContainerFs, where writable layers have a file system of their own, are those of NodeFs, as in the
	// kubelet.
	ContainerFsAvailable  Signal = "containerfs.available"
	ContainerFsInodesFree Signal = "containerfs.inodesFree"
)

// The resources without a constant in the Kubernetes API.
const (
	inodes v1.ResourceName = "inodes"
	pids   v1.ResourceName = "pids"
)

// signalInfo is the resource of a signal and the condition for its shortage. order ranks signals: the lowest is acted
// upon first.
type signalInfo struct {
	resource  v1.ResourceName
	condition v1.NodeConditionType
	order     int
}

// signals has memory first: without it, nothing else works.
var signals = map[Signal]signalInfo{
	MemoryAvailable:            {v1.ResourceMemory, v1.NodeMemoryPressure, 0},
	AllocatableMemoryAvailable: {v1.ResourceMemory, v1.NodeMemoryPressure, 1},
	NodeFsAvailable:            {v1.ResourceEphemeralStorage, v1.NodeDiskPressure, 2},
	NodeFsInodesFree:           {inodes, v1.NodeDiskPressure, 3},
	ImageFsAvailable:           {v1.ResourceEphemeralStorage, v1.NodeDiskPressure, 4},
	ImageFsInodesFree:          {inodes, v1.NodeDiskPressure, 5},
	ContainerFsAvailable:       {v1.ResourceEphemeralStorage, v1.NodeDiskPressure, 6},
	ContainerFsInodesFree:      {inodes, v1.NodeDiskPressure, 7},
	PIDAvailable:               {pids, v1.NodePIDPressure, 8},
}

// derived are the signals whose thresholds are those of others. They may be configured, and that has no effect.
var derived = map[Signal]Signal{
	AllocatableMemoryAvailable: MemoryAvailable, ContainerFsAvailable: NodeFsAvailable, ContainerFsInodesFree: NodeFsInodesFree,
}

// Settings are the eviction fields of a KubeletConfiguration, verbatim.
type Settings struct {
	// Hard, Soft and MinimumReclaim are quantities or percentages by signal; SoftGracePeriod are durations. A nil
	// Hard means the kubelet's defaults.
	Hard, Soft, SoftGracePeriod, MinimumReclaim map[string]string
}

// defaultHard are the kubelet's defaults.
var defaultHard = map[string]string{
	string(MemoryAvailable): "100Mi", string(NodeFsAvailable): "10%", string(NodeFsInodesFree): "5%",
	string(ImageFsAvailable): "15%", string(ImageFsInodesFree): "5%",
}

// Threshold is the amount of a resource that must stay available.
type Threshold struct {
	signal Signal
	value  thresholdValue
	// gracePeriod is how long less may be available. Zero makes the threshold a hard one.
	gracePeriod time.Duration
	// minReclaim must be available above value before a threshold that was met counts as resolved.
	minReclaim thresholdValue
}

// thresholdValue is a quantity, or a percentage of the capacity as a fraction of 1.
type thresholdValue struct {
	quantity   resource.Quantity
	percentage float64
}

// of returns the amount for a capacity.
func (a thresholdValue) of(capacity resource.Quantity) resource.Quantity {
	if a.percentage == 0 {
		return a.quantity.DeepCopy()
	}
	return *resource.NewQuantity(int64(float64(capacity.Value())*a.percentage), capacity.Format)
}

// Parse returns the thresholds of the settings, in the order in which they are acted upon. Its error names all
// invalid settings.
func Parse(s Settings) ([]Threshold, error) {
	if s.Hard == nil {
		s.Hard = defaultHard
	}
	p := parser{}
	reclaim := p.thresholdValues("evictionMinimumReclaim", s.MinimumReclaim, true)
	graces := p.gracePeriods(s.SoftGracePeriod)
	var all []Threshold
	for signal, a := range p.thresholdValues("evictionHard", s.Hard, false) {
		all = append(all, Threshold{signal: signal, value: a, minReclaim: reclaim[signal]})
	}
	for signal, a := range p.thresholdValues("evictionSoft", s.Soft, false) {
		if _, has := graces[signal]; !has {
			p.fail("evictionSoft", string(signal), "it needs a grace period in evictionSoftGracePeriod")
		}
		all = append(all, Threshold{signal: signal, value: a, gracePeriod: graces[signal], minReclaim: reclaim[signal]})
	}
	for _, t := range all {
		for to, from := range derived {
			// The limit of all pods' cgroup has no soft threshold.
			if t.signal == from && (t.gracePeriod == 0 || to != AllocatableMemoryAvailable) {
				t.signal = to
				all = append(all, t)
				break
			}
		}
	}
	slices.SortFunc(all, func(a, b Threshold) int {
		return cmp.Or(cmp.Compare(signals[a.signal].order, signals[b.signal].order), cmp.Compare(a.gracePeriod, b.gracePeriod))
	})
	return all, errors.Join(p.errs...)
}

// parser collects the errors of the settings.
type parser struct{ errs []error }

func (p *parser) fail(field, signal, why string) {
	p.errs = append(p.errs, fmt.Errorf("%s[%s]: %s", field, signal, why))
}

// supported returns the keys of a field that are signals, sorted; it skips the derived ones and reports the others.
func (p *parser) supported(field string, values map[string]string) []Signal {
	var out []Signal
	for _, name := range slices.Sorted(maps.Keys(values)) {
		signal := Signal(name)
		_, known := signals[signal]
		_, follows := derived[signal]
		switch {
		case !known:
			p.fail(field, name, "unknown signal")
		case !follows:
			out = append(out, signal)
		}
	}
	return out
}

// thresholdValues parses quantities and percentages. Unless zero is set, the values 0% and 100% disable a threshold.
func (p *parser) thresholdValues(field string, values map[string]string, zero bool) map[Signal]thresholdValue {
	out := map[Signal]thresholdValue{}
	for _, signal := range p.supported(field, values) {
		value := values[string(signal)]
		if !zero && (value == "0%" || value == "100%") {
			continue
		}
		a, err := parseThresholdValue(value)
		switch {
		case err != nil:
			p.fail(field, string(signal), fmt.Sprintf("%q: %v", value, err))
		case !zero && a.percentage == 0 && a.quantity.Sign() <= 0:
			p.fail(field, string(signal), fmt.Sprintf("it is %q, and must be positive", value))
		default:
			out[signal] = a
		}
	}
	return out
}

func parseThresholdValue(value string) (thresholdValue, error) {
	share, percent := strings.CutSuffix(value, "%")
	if !percent {
		q, err := resource.ParseQuantity(value)
		if err == nil && q.Sign() < 0 {
			err = errors.New("it must not be negative")
		}
		return thresholdValue{quantity: q}, err
	}
	p, err := strconv.ParseFloat(share, 64)
	if err == nil && (math.IsNaN(p) || p < 0 || p > 100) {
		err = errors.New("it must be from 0% to 100%")
	}
	return thresholdValue{percentage: p / 100}, err
}

func (p *parser) gracePeriods(values map[string]string) map[Signal]time.Duration {
	const field = "evictionSoftGracePeriod"
	out := map[Signal]time.Duration{}
	for _, signal := range p.supported(field, values) {
		value := values[string(signal)]
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 {
			p.fail(field, string(signal), fmt.Sprintf("it is %q; want a duration, such as 1m30s", value))
			continue
		}
		out[signal] = d
	}
	return out
}
