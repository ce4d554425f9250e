package execconfig

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	cliflag "k8s.io/component-base/cli/flag"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
)

// Eviction configures node-pressure eviction, besides Node.EvictionHard.
type Eviction struct {
	// EvictionSoft are thresholds as EvictionHard; below one, pods are evicted after the signal's
	// EvictionSoftGracePeriod.
	EvictionSoft            map[string]string
	EvictionSoftGracePeriod map[string]time.Duration
	// EvictionMinimumReclaim is how far above its threshold a signal must rise until evictions stop.
	EvictionMinimumReclaim map[string]string
	// EvictionPressureTransitionPeriod is the least duration of a pressure condition: 5 min.
	EvictionPressureTransitionPeriod time.Duration
	// EvictionMaxPodGracePeriod is the greatest grace period, in seconds, of a pod that is evicted for a soft
	// threshold; zero: none, negative: the pod's own.
	EvictionMaxPodGracePeriod int
	// KernelMemcgNotification has the kernel report when memory.available falls below a threshold, with cgroup v1.
	KernelMemcgNotification bool
}

// defaultEvictionHard returns the default thresholds.
func defaultEvictionHard() map[string]string {
	return map[string]string{
		"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%", "imagefs.available": "15%", "imagefs.inodesFree": "5%",
	}
}

// evictionSignals are the signals of resources that the node can run short of.
var evictionSignals = []string{
	"memory.available", "allocatableMemory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree",
	"containerfs.available", "containerfs.inodesFree", "pid.available",
}

// evictionTexts are unparsed settings.
type evictionTexts struct {
	gracePeriods map[string]string
}

func (e *Eviction) addFlags(fs *pflag.FlagSet, texts *evictionTexts) {
	fs.Var(cliflag.NewLangleSeparatedMapStringString(&e.EvictionSoft), "eviction-soft",
		"`thresholds` below which pods are evicted after a while: memory.available<1.5Gi")
	fs.Var(cliflag.NewMapStringString(&texts.gracePeriods), "eviction-soft-grace-period", "grace `times` of these thresholds: memory.available=1m30s")
	fs.Var(cliflag.NewMapStringString(&e.EvictionMinimumReclaim), "eviction-minimum-reclaim",
		"`amounts` above the thresholds at which evictions stop: imagefs.available=2Gi")
	fs.DurationVar(&e.EvictionPressureTransitionPeriod, "eviction-pressure-transition-period", 5*time.Minute,
		"least `time` of a pressure condition of the node")
	fs.IntVar(&e.EvictionMaxPodGracePeriod, "eviction-max-pod-grace-period", 0,
		"greatest grace period in `seconds` of a pod that is evicted for a soft threshold; below 0: the pod's own")
	fs.BoolVar(&e.KernelMemcgNotification, "kernel-memcg-notification", false,
		"evict as soon as the kernel reports that memory is below a threshold; without an effect with cgroup v2")
}

// fromFile sets what the file sets and no flag does.
func (e *Eviction) fromFile(set *pflag.FlagSet, texts *evictionTexts, f *kubeletconfigv1beta1.KubeletConfiguration) {
	takeMap(set, "eviction-soft", &e.EvictionSoft, f.EvictionSoft)
	takeMap(set, "eviction-soft-grace-period", &texts.gracePeriods, f.EvictionSoftGracePeriod)
	takeMap(set, "eviction-minimum-reclaim", &e.EvictionMinimumReclaim, f.EvictionMinimumReclaim)
	take(set, "eviction-pressure-transition-period", &e.EvictionPressureTransitionPeriod, f.EvictionPressureTransitionPeriod.Duration)
	take(set, "eviction-max-pod-grace-period", &e.EvictionMaxPodGracePeriod, int(f.EvictionMaxPodGracePeriod))
	take(set, "kernel-memcg-notification", &e.KernelMemcgNotification, f.KernelMemcgNotification)
}

// evictionHardOf returns the file's hard thresholds, which replace or extend the defaults.
func evictionHardOf(f *kubeletconfigv1beta1.KubeletConfiguration) map[string]string {
	if f.EvictionHard == nil || !ptr.Deref(f.MergeDefaultEvictionSettings, false) {
		return f.EvictionHard
	}
	merged := defaultEvictionHard()
	maps.Copy(merged, f.EvictionHard)
	return merged
}

// check calls wrong for each invalid setting, and parses the grace periods.
func (e *Eviction) check(texts *evictionTexts, wrong func(flag, field, reason string)) {
	checkThresholds("eviction-soft", "evictionSoft", e.EvictionSoft, wrong)
	checkThresholds("eviction-minimum-reclaim", "evictionMinimumReclaim", e.EvictionMinimumReclaim, wrong)
	for _, signal := range slices.Sorted(maps.Keys(texts.gracePeriods)) {
		period, err := time.ParseDuration(texts.gracePeriods[signal])
		switch {
		case !slices.Contains(evictionSignals, signal):
			wrong("eviction-soft-grace-period", "evictionSoftGracePeriod", notSignal(signal))
		case err != nil || period < 0:
			wrong("eviction-soft-grace-period", "evictionSoftGracePeriod", fmt.Sprintf("%s is %q; want a time, such as 90s", signal, texts.gracePeriods[signal]))
		default:
			if e.EvictionSoftGracePeriod == nil {
				e.EvictionSoftGracePeriod = map[string]time.Duration{}
			}
			e.EvictionSoftGracePeriod[signal] = period
		}
	}
	for _, signal := range slices.Sorted(maps.Keys(e.EvictionSoft)) {
		if _, ok := texts.gracePeriods[signal]; !ok {
			wrong("eviction-soft", "evictionSoft", fmt.Sprintf("%s has no grace period in --eviction-soft-grace-period or evictionSoftGracePeriod", signal))
		}
	}
	if e.EvictionPressureTransitionPeriod < 0 {
		wrong("eviction-pressure-transition-period", "evictionPressureTransitionPeriod", "it must not be less than zero")
	}
}

// checkThresholds calls wrong for each invalid amount and unknown signal.
func checkThresholds(flag, field string, thresholds map[string]string, wrong func(flag, field, reason string)) {
	for _, signal := range slices.Sorted(maps.Keys(thresholds)) {
		if !slices.Contains(evictionSignals, signal) {
			wrong(flag, field, notSignal(signal))
		} else if !isThreshold(thresholds[signal]) {
			wrong(flag, field, fmt.Sprintf("%s is %q; want an amount or a percentage", signal, thresholds[signal]))
		}
	}
}

// isThreshold reports whether a text is a quantity, or a percentage. 0% and 100% mean no threshold.
func isThreshold(text string) bool {
	if number, ok := strings.CutSuffix(text, "%"); ok {
		percentage, err := strconv.ParseFloat(number, 64)
		return err == nil && percentage >= 0 && percentage <= 100
	}
	q, err := resource.ParseQuantity(text)
	return err == nil && q.Sign() >= 0
}

func notSignal(name string) string {
	return fmt.Sprintf("%q is nothing that pods are evicted for; that is one of %s", name, strings.Join(evictionSignals, ", "))
}

// derivedThresholds returns a warning for each threshold of containerfs: as with the kubelet it has no effect.
func (s *Settings) derivedThresholds() (warnings []string) {
	for _, field := range []struct {
		name       string
		thresholds map[string]string
	}{{"evictionHard", s.EvictionHard}, {"evictionSoft", s.EvictionSoft}, {"evictionMinimumReclaim", s.EvictionMinimumReclaim}} {
		for _, signal := range slices.Sorted(maps.Keys(field.thresholds)) {
			if strings.HasPrefix(signal, "containerfs.") {
				warnings = append(warnings, fmt.Sprintf("%s: %s has no effect: its thresholds are those of nodefs, or of imagefs if containers are there", field.name, signal))
			}
		}
	}
	return warnings
}
