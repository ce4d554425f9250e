package validate

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The signals that can stop a container.
var (
	linuxSignals   = append(namedSignals, realtimeSignals()...)
	windowsSignals = []v1.Signal{v1.SIGKILL, v1.SIGTERM}

	namedSignals = []v1.Signal{
		v1.SIGABRT, v1.SIGALRM, v1.SIGBUS, v1.SIGCHLD, v1.SIGCLD, v1.SIGCONT, v1.SIGFPE, v1.SIGHUP, v1.SIGILL, v1.SIGINT, v1.SIGIO,
		v1.SIGIOT, v1.SIGKILL, v1.SIGPIPE, v1.SIGPOLL, v1.SIGPROF, v1.SIGPWR, v1.SIGQUIT, v1.SIGSEGV, v1.SIGSTKFLT, v1.SIGSTOP,
		v1.SIGSYS, v1.SIGTERM, v1.SIGTRAP, v1.SIGTSTP, v1.SIGTTIN, v1.SIGTTOU, v1.SIGURG, v1.SIGUSR1, v1.SIGUSR2, v1.SIGVTALRM,
		v1.SIGWINCH, v1.SIGXCPU, v1.SIGXFSZ,
	}
)

// realtimeSignals returns SIGRTMIN to SIGRTMIN+15 and SIGRTMAX-14 to SIGRTMAX.
func realtimeSignals() []v1.Signal {
	signals := []v1.Signal{v1.SIGRTMIN, v1.SIGRTMAX}
	for i := 1; i <= 15; i++ {
		signals = append(signals, v1.Signal(fmt.Sprintf("SIGRTMIN+%d", i)))
	}
	for i := 1; i <= 14; i++ {
		signals = append(signals, v1.Signal(fmt.Sprintf("SIGRTMAX-%d", i)))
	}
	return signals
}

// validateStopSignal checks a signal. The valid ones depend on the operating system, so the pod has to name it.
func validateStopSignal(signal *v1.Signal, os *v1.PodOS, at *field.Path) field.ErrorList {
	switch {
	case signal == nil:
		return nil
	case os == nil:
		return field.ErrorList{field.Forbidden(at, "needs spec.os.name")}
	case os.Name == v1.Windows:
		return oneOf(at, *signal, windowsSignals...)
	case os.Name == v1.Linux && !slices.Contains(linuxSignals, *signal):
		return field.ErrorList{field.Invalid(at, *signal, "must be the name of a signal, such as SIGUSR1")}
	}
	return nil
}
