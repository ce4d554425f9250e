package apiobjects

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// master is the API server's service in the namespace default.
const master = "kubernetes"

// errServicesUnread has the kubelet's words.
var errServicesUnread = errors.New("services have not yet been read at least once, cannot construct envvars")

// service is a service with a cluster IP. The file of stored services has these field names.
type service struct {
	Namespace, Name, IP string
	Ports               []port
}

type port struct {
	Name, Protocol string
	Number         int32
}

func (c *Cluster) findServices(context.Context) (Resource, error) {
	r := c.cfg.Services
	// Headless services aren't needed.
	r.fields = fields.OneTermNotEqualSelector("spec.clusterIP", v1.ClusterIPNone).String()
	return r, nil
}

func cutService(o runtime.Object) (service, bool) {
	s, ok := o.(*v1.Service)
	if !ok || s.Spec.ClusterIP == "" || s.Spec.ClusterIP == v1.ClusterIPNone {
		return service{}, false
	}
	// The strings are cloned, because they may be parts of the whole response.
	cut := service{
		Namespace: strings.Clone(s.Namespace), Name: strings.Clone(s.Name), IP: strings.Clone(s.Spec.ClusterIP),
		Ports: make([]port, len(s.Spec.Ports)),
	}
	for i, p := range s.Spec.Ports {
		cut.Ports[i] = port{strings.Clone(p.Name), strings.Clone(strings.ToUpper(string(p.Protocol))), p.Port}
		if p.Protocol == "" {
			cut.Ports[i].Protocol = string(v1.ProtocolTCP)
		}
	}
	return cut, true
}

// Services returns the environment variables of the services that the pod's containers see, as the kubelet's
// getServiceEnvVarMap does: those of the API server's service, and of the pod's namespace if it enables service
// links. For a pod that isn't static it returns an error until services have been read or recalled.
func (c *Cluster) Services(pod *v1.Pod) ([]criconfig.EnvVar, error) {
	links := ptr.Deref(pod.Spec.EnableServiceLinks, true)
	found, known := c.services.find(pod.UID, func(s service) bool {
		return s.Namespace == pod.Namespace && links || s.isMaster()
	})
	if known == unread && !podmeta.IsStatic(pod) {
		return nil, errServicesUnread
	}
	return variables(shadowed(found, pod.Namespace)), nil
}

func (s service) isMaster() bool { return s.Namespace == metav1.NamespaceDefault && s.Name == master }

// shadowed returns the services in the order of their names. For two of one name it returns the namespace's, not the
// API server's.
func shadowed(services []service, namespace string) []service {
	slices.SortFunc(services, func(a, b service) int {
		switch {
		case a.Name != b.Name:
			return strings.Compare(a.Name, b.Name)
		case a.Namespace == namespace:
			return -1
		default:
			return 1
		}
	})
	return slices.CompactFunc(services, func(a, b service) bool { return a.Name == b.Name })
}

// variables returns the variables of the services, in the order of the kubelet's pkg/kubelet/envvars.
func variables(services []service) []criconfig.EnvVar {
	var env []criconfig.EnvVar
	set := func(name, value string) { env = append(env, criconfig.EnvVar{Name: name, Value: value}) }
	for _, s := range services {
		if len(s.Ports) == 0 {
			continue
		}
		prefix := variableName(s.Name)
		set(prefix+"_SERVICE_HOST", s.IP)
		set(prefix+"_SERVICE_PORT", s.Ports[0].text())
		for _, p := range s.Ports {
			if p.Name != "" {
				set(prefix+"_SERVICE_PORT_"+variableName(p.Name), p.text())
			}
		}
		// These are the variables of Docker links.
		set(prefix+"_PORT", s.Ports[0].url(s.IP))
		for _, p := range s.Ports {
			link := prefix + "_PORT_" + p.text() + "_" + p.Protocol
			set(link, p.url(s.IP))
			set(link+"_PROTO", strings.ToLower(p.Protocol))
			set(link+"_PORT", p.text())
			set(link+"_ADDR", s.IP)
		}
	}
	return env
}

func (p port) text() string { return strconv.Itoa(int(p.Number)) }

func (p port) url(ip string) string {
	return strings.ToLower(p.Protocol) + "://" + net.JoinHostPort(ip, p.text())
}

func variableName(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }
