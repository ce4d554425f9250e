package pressure

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

// Signal is something of which less and less may be available.
type Signal string

// The signals, by the names that a KubeletConfiguration has for them. AllocatableMemoryAvailable is what is left within the bounds of all pods
// together, and always goes by the hard threshold of MemoryAvailable.
const (
	MemoryAvailable            Signal = "memory.available"
	AllocatableMemoryAvailable Signal = "allocatableMemory.available"
	NodeFsAvailable            Signal = "nodefs.available"
	NodeFsInodesFree           Signal = "nodefs.inodesFree"
	ImageFsAvailable           Signal = "imagefs.available"
	ImageFsInodesFree          Signal = "imagefs.inodesFree"
	PIDAvailable               Signal = "pid.available"
)

// The resources that are not of Kubernetes' own.
const (
	inodes v1.ResourceName = "inodes"
	pids   v1.ResourceName = "pids"
)

// kind is what a signal is about: a resource, and the condition of a node that lacks it. first is which of several is acted upon.
type kind struct {
	resource  v1.ResourceName
	condition v1.NodeConditionType
	first     int
}

// kinds are the signals, memory first: without it, nothing else works.
var kinds = map[Signal]kind{
	MemoryAvailable:            {v1.ResourceMemory, v1.NodeMemoryPressure, 0},
	AllocatableMemoryAvailable: {v1.ResourceMemory, v1.NodeMemoryPressure, 1},
	NodeFsAvailable:            {v1.ResourceEphemeralStorage, v1.NodeDiskPressure, 2},
	NodeFsInodesFree:           {inodes, v1.NodeDiskPressure, 3},
	ImageFsAvailable:           {v1.ResourceEphemeralStorage, v1.NodeDiskPressure, 4},
	ImageFsInodesFree:          {inodes, v1.NodeDiskPressure, 5},
	PIDAvailable:               {pids, v1.NodePIDPressure, 6},
}

// ignored are signals that may be configured, and say nothing that others don't.
var ignored = []Signal{AllocatableMemoryAvailable, "containerfs.available", "containerfs.inodesFree"}

// Settings are the fields of a KubeletConfiguration, as they stand there.
type Settings struct {
	// Hard, Soft and MinimumReclaim are quantities or percentages by signal; SoftGrace are durations. A nil Hard means the kubelet's defaults.
	Hard, Soft, SoftGrace, MinimumReclaim map[string]string
}

// defaultHard are the kubelet's thresholds.
var defaultHard = map[string]string{
	string(MemoryAvailable): "100Mi", string(NodeFsAvailable): "10%", string(NodeFsInodesFree): "5%",
	string(ImageFsAvailable): "15%", string(ImageFsInodesFree): "5%",
}

// Threshold is an amount of which at least so much has to be available.
type Threshold struct {
	signal Signal
	amount amount
	// grace is how long there may be less. Zero: not at all; then the threshold is a hard one.
	grace time.Duration
	// reclaim is how much more has to be available, once there was less, until it is enough.
	reclaim amount
}

// amount is a quantity, or a share of what there is.
type amount struct {
	quantity resource.Quantity
	share    float64
}

// of is the amount, given what there is in all.
func (a amount) of(capacity resource.Quantity) resource.Quantity {
	if a.share == 0 {
		return a.quantity.DeepCopy()
	}
	return *resource.NewQuantity(int64(float64(capacity.Value())*a.share), capacity.Format)
}

// Parse makes the thresholds of the settings, in the order in which they are acted upon. It names all that can't be meant.
func Parse(s Settings) ([]Threshold, error) {
	if s.Hard == nil {
		s.Hard = defaultHard
	}
	p := parser{}
	reclaim := p.amounts("evictionMinimumReclaim", s.MinimumReclaim, true)
	graces := p.graces(s.SoftGrace)
	var all []Threshold
	for signal, a := range p.amounts("evictionHard", s.Hard, false) {
		all = append(all, Threshold{signal: signal, amount: a, reclaim: reclaim[signal]})
		if signal == MemoryAvailable {
			all = append(all, Threshold{signal: AllocatableMemoryAvailable, amount: a, reclaim: reclaim[signal]})
		}
	}
	for signal, a := range p.amounts("evictionSoft", s.Soft, false) {
		if _, has := graces[signal]; !has {
			p.wrong("evictionSoft", string(signal), "it needs a grace period in evictionSoftGracePeriod")
		}
		all = append(all, Threshold{signal: signal, amount: a, grace: graces[signal], reclaim: reclaim[signal]})
	}
	slices.SortFunc(all, func(a, b Threshold) int {
		return cmp.Or(cmp.Compare(kinds[a.signal].first, kinds[b.signal].first), cmp.Compare(a.grace, b.grace))
	})
	return all, errors.Join(p.mistakes...)
}

// parser gathers what is wrong.
type parser struct{ mistakes []error }

func (p *parser) wrong(field, signal, why string) {
	p.mistakes = append(p.mistakes, fmt.Errorf("%s[%s]: %s", field, signal, why))
}

// signals are those of a field's keys that are looked at.
func (p *parser) signals(field string, values map[string]string) []Signal {
	var out []Signal
	for _, name := range slices.Sorted(maps.Keys(values)) {
		signal := Signal(name)
		if _, known := kinds[signal]; known && signal != AllocatableMemoryAvailable {
			out = append(out, signal)
		} else if !slices.Contains(ignored, signal) {
			p.wrong(field, name, "there is no such signal")
		}
	}
	return out
}

// amounts reads quantities and percentages. As thresholds, 0% and 100% are none.
func (p *parser) amounts(field string, values map[string]string, zero bool) map[Signal]amount {
	out := map[Signal]amount{}
	for _, signal := range p.signals(field, values) {
		value := values[string(signal)]
		if !zero && (value == "0%" || value == "100%") {
			continue
		}
		a, err := parseAmount(value)
		switch {
		case err != nil:
			p.wrong(field, string(signal), fmt.Sprintf("%q: %v", value, err))
		case !zero && a.share == 0 && a.quantity.Sign() <= 0:
			p.wrong(field, string(signal), fmt.Sprintf("it is %q, and must be more than nothing", value))
		default:
			out[signal] = a
		}
	}
	return out
}

func parseAmount(value string) (amount, error) {
	share, percent := strings.CutSuffix(value, "%")
	if !percent {
		q, err := resource.ParseQuantity(value)
		if err == nil && q.Sign() < 0 {
			err = errors.New("it is less than nothing")
		}
		return amount{quantity: q}, err
	}
	p, err := strconv.ParseFloat(share, 64)
	if err == nil && (math.IsNaN(p) || p < 0 || p > 100) {
		err = errors.New("it must be from 0% to 100%")
	}
	return amount{share: p / 100}, err
}

func (p *parser) graces(values map[string]string) map[Signal]time.Duration {
	const field = "evictionSoftGracePeriod"
	out := map[Signal]time.Duration{}
	for _, signal := range p.signals(field, values) {
		value := values[string(signal)]
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 {
			p.wrong(field, string(signal), fmt.Sprintf("it is %q; want a duration, such as 1m30s", value))
			continue
		}
		out[signal] = d
	}
	return out
}
