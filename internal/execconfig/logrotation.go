package execconfig

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
)

// LogRotation configures the rotation of containers' logs.
type LogRotation struct {
	// MaxSize is the size from which a log is rotated, as a quantity: 10Mi. MaxBytes is its value; negative: no log is
	// rotated.
	MaxSize  string
	MaxBytes int64
	// MaxFiles is how many files a container's log has at most: 5.
	MaxFiles int
	// Workers is how many logs are rotated at a time: 1.
	Workers int
	// Interval is the longest time between two looks at a log: 10 s.
	Interval time.Duration
}

// minLogInterval is the kubelet's lower bound of LogRotation.Interval.
const minLogInterval = 3 * time.Second

// supportedOfLogRotation are the fields of a KubeletConfiguration that set a LogRotation.
var supportedOfLogRotation = []string{"containerLogMaxSize", "containerLogMaxFiles", "containerLogMaxWorkers", "containerLogMonitorInterval"}

func (l *LogRotation) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&l.MaxSize, "container-log-max-size", "10Mi", "`size` from which a container's log is rotated; below 0: never")
	fs.IntVar(&l.MaxFiles, "container-log-max-files", 5, "`number` of files that a container's log has at most; 2 or more")
	l.Workers, l.Interval = 1, 10*time.Second
}

// fromFile sets what the file sets and no flag does.
func (l *LogRotation) fromFile(set *pflag.FlagSet, c *kubeletconfigv1beta1.KubeletConfiguration) {
	take(set, "container-log-max-size", &l.MaxSize, c.ContainerLogMaxSize)
	takeNumber(set, "container-log-max-files", &l.MaxFiles, c.ContainerLogMaxFiles)
	takeNumber(set, "", &l.Workers, c.ContainerLogMaxWorkers)
	if c.ContainerLogMonitorInterval != nil {
		l.Interval = c.ContainerLogMonitorInterval.Duration
	}
}

func (l *LogRotation) into(c *kubeletconfigv1beta1.KubeletConfiguration) {
	c.ContainerLogMaxSize, c.ContainerLogMaxFiles, c.ContainerLogMaxWorkers = l.MaxSize, number(l.MaxFiles), number(l.Workers)
	c.ContainerLogMonitorInterval = ptr.To(duration(l.Interval))
}

// check calls wrong for each invalid setting, and parses MaxSize.
func (l *LogRotation) check(wrong func(flag, field, reason string)) {
	quantity, err := resource.ParseQuantity(l.MaxSize)
	bytes, whole := quantity.AsInt64()
	if err != nil || !whole {
		wrong("container-log-max-size", "containerLogMaxSize", fmt.Sprintf("it is %q; want a number of bytes, such as 10Mi", l.MaxSize))
	}
	l.MaxBytes = bytes
	if l.MaxFiles <= 1 {
		wrong("container-log-max-files", "containerLogMaxFiles", fmt.Sprintf("it is %d, and must be greater than 1", l.MaxFiles))
	}
	if l.Workers < 1 {
		wrong("", "containerLogMaxWorkers", fmt.Sprintf("it is %d, and must be greater than or equal to 1", l.Workers))
	}
	if l.Interval < minLogInterval {
		wrong("", "containerLogMonitorInterval", fmt.Sprintf("it is %v, and must be a positive time duration greater than or equal to %v", l.Interval, minLogInterval))
	}
}
