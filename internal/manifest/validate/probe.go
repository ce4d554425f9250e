package validate

import (
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateProbes checks a container's probes. A container that ends before the others start can't have any.
func validateProbes(c *v1.Container, once bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, p := range []struct {
		field string
		probe *v1.Probe
	}{{"livenessProbe", c.LivenessProbe}, {"readinessProbe", c.ReadinessProbe}, {"startupProbe", c.StartupProbe}} {
		at := path.Child(p.field)
		switch {
		case p.probe == nil:
		case once:
			errs = append(errs, field.Forbidden(at, "an init container can have it only with restartPolicy Always"))
		default:
			errs = append(errs, validateProbe(p.probe, p.probe == c.ReadinessProbe, at)...)
		}
	}
	return errs
}

func validateProbe(p *v1.Probe, readiness bool, path *field.Path) field.ErrorList {
	errs := validateHandler(handler{exec: p.Exec, httpGet: p.HTTPGet, tcpSocket: p.TCPSocket, grpc: p.GRPC}, path)
	errs = append(errs, inRange(path.Child("initialDelaySeconds"), &p.InitialDelaySeconds, 0, math.MaxInt32)...)
	errs = append(errs, inRange(path.Child("timeoutSeconds"), &p.TimeoutSeconds, 1, math.MaxInt32)...)
	errs = append(errs, inRange(path.Child("periodSeconds"), &p.PeriodSeconds, 1, math.MaxInt32)...)
	errs = append(errs, inRange(path.Child("successThreshold"), &p.SuccessThreshold, 1, math.MaxInt32)...)
	errs = append(errs, inRange(path.Child("failureThreshold"), &p.FailureThreshold, 1, math.MaxInt32)...)
	at := path.Child("terminationGracePeriodSeconds")
	if readiness {
		if p.TerminationGracePeriodSeconds != nil {
			errs = append(errs, field.Forbidden(at, "a readiness probe ends no container"))
		}
		return errs
	}
	if p.SuccessThreshold > 1 {
		errs = append(errs, field.Invalid(path.Child("successThreshold"), p.SuccessThreshold, "must be 1"))
	}
	return append(errs, inRange(at, p.TerminationGracePeriodSeconds, 1, math.MaxInt64)...)
}

// validateLifecycle checks a container's hooks.
func validateLifecycle(c *v1.Container, once bool, spec *v1.PodSpec, path *field.Path) field.ErrorList {
	if c.Lifecycle == nil {
		return nil
	}
	path = path.Child("lifecycle")
	if once {
		return field.ErrorList{field.Forbidden(path, "an init container can have it only with restartPolicy Always")}
	}
	errs := validateStopSignal(c.Lifecycle.StopSignal, spec.OS, path.Child("stopSignal"))
	for _, h := range []struct {
		field string
		hook  *v1.LifecycleHandler
	}{{"postStart", c.Lifecycle.PostStart}, {"preStop", c.Lifecycle.PreStop}} {
		if h.hook == nil {
			continue
		}
		at := path.Child(h.field)
		errs = append(errs, validateHandler(handler{
			exec: h.hook.Exec, httpGet: h.hook.HTTPGet, tcpSocket: h.hook.TCPSocket, sleep: h.hook.Sleep,
		}, at)...)
		if h.hook.Sleep != nil {
			errs = append(errs, validateSleep(h.hook.Sleep.Seconds, *spec.TerminationGracePeriodSeconds, at.Child("sleep", "seconds"))...)
		}
	}
	return errs
}

// validateSleep refuses a hook that sleeps longer than the pod's grace period.
func validateSleep(seconds, grace int64, at *field.Path) field.ErrorList {
	if seconds >= 0 && seconds <= grace {
		return nil
	}
	return field.ErrorList{field.Invalid(at, seconds, "must be at least 0, and at most the pod's terminationGracePeriodSeconds")}
}

// handler is the action of a probe or a hook: one of these.
type handler struct {
	exec      *v1.ExecAction
	httpGet   *v1.HTTPGetAction
	tcpSocket *v1.TCPSocketAction
	grpc      *v1.GRPCAction
	sleep     *v1.SleepAction
}

func validateHandler(h handler, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	actions := 0
	if h.exec != nil {
		actions++
		if len(h.exec.Command) == 0 {
			errs = append(errs, field.Required(path.Child("exec", "command"), ""))
		}
	}
	if h.httpGet != nil {
		actions++
		errs = append(errs, validateHTTPGet(h.httpGet, path.Child("httpGet"))...)
	}
	if h.tcpSocket != nil {
		actions++
		errs = append(errs, validatePort(h.tcpSocket.Port, path.Child("tcpSocket", "port"))...)
	}
	if h.grpc != nil {
		actions++
		errs = append(errs, invalid(path.Child("grpc", "port"), h.grpc.Port, validation.IsValidPortNum(int(h.grpc.Port)))...)
	}
	if h.sleep != nil {
		actions++
	}
	switch {
	case actions == 0:
		errs = append(errs, field.Required(path, "must have a handler"))
	case actions > 1:
		errs = append(errs, field.Forbidden(path, "must have one handler only"))
	}
	return errs
}

func validateHTTPGet(get *v1.HTTPGetAction, path *field.Path) field.ErrorList {
	errs := validatePort(get.Port, path.Child("port"))
	errs = append(errs, oneOf(path.Child("scheme"), get.Scheme, v1.URISchemeHTTP, v1.URISchemeHTTPS)...)
	for i, header := range get.HTTPHeaders {
		errs = append(errs, invalid(path.Child("httpHeaders").Index(i).Child("name"), header.Name, validation.IsHTTPHeaderName(header.Name))...)
	}
	return errs
}

// validatePort checks a port's number or name.
func validatePort(port intstr.IntOrString, at *field.Path) field.ErrorList {
	if port.Type == intstr.Int {
		return invalid(at, port.IntVal, validation.IsValidPortNum(port.IntValue()))
	}
	return invalid(at, port.StrVal, validation.IsValidPortName(port.StrVal))
}
