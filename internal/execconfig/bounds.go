package execconfig

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podstream/podstream/internal/kubeletconfig"
)

// The kubelet's bounds of crashLoopBackOff.maxContainerRestartPeriod. The flag --crash-loop-backoff-max, which the kubelet
// doesn't have, may go beyond them.
const leastRestartPeriod, greatestRestartPeriod = time.Second, 300 * time.Second

// hairpinModes are the values of hairpinMode. None has an effect: the CNI plugin decides.
var hairpinModes = []string{"", kubeletconfigv1beta1.HairpinNone, kubeletconfigv1beta1.HairpinVeth, kubeletconfigv1beta1.PromiscuousBridge}

// checkBounds calls wrong for each value in the file that the kubelet refuses too, and that no other check finds.
func checkBounds(file *kubeletconfig.Config, wrong func(flag, field, reason string)) {
	if p := file.CrashLoopBackOff.MaxContainerRestartPeriod; p != nil && (p.Duration < leastRestartPeriod || p.Duration > greatestRestartPeriod) {
		wrong("", "crashLoopBackOff.maxContainerRestartPeriod",
			fmt.Sprintf("it is %v; want %v to %v", p.Duration, leastRestartPeriod, greatestRestartPeriod))
	}
	if n := file.MaxParallelImagePulls; n != nil && *n == 0 {
		wrong("", "maxParallelImagePulls", "it is 0; want a greater number, or leave it out for no limit")
	}
	if dir := file.PodLogsDir; dir != "" && filepath.Clean(dir) != dir {
		wrong("", "podLogsDir", fmt.Sprintf("it is %q; want %q", dir, filepath.Clean(dir)))
	}
	if !slices.Contains(hairpinModes, file.HairpinMode) {
		wrong("", "hairpinMode", fmt.Sprintf("it is %q; want %s, %s or %s", file.HairpinMode, kubeletconfigv1beta1.HairpinNone,
			kubeletconfigv1beta1.HairpinVeth, kubeletconfigv1beta1.PromiscuousBridge))
	}
}
