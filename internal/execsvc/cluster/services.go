package cluster

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

	"github.com/podstream/podstream/internal/execsvc/criconfig"
)

// master is the service by which clients in pods find the API server, in the namespace default.
const master = "kubernetes"

// errServicesUnread has the kubelet's words.
var errServicesUnread = errors.New("services have not yet been read at least once, cannot construct envvars")

// service is one with an address of its own.
type service struct {
	namespace, name, ip string
	ports               []port
}

type port struct {
	name, protocol string
	number         int32
}

func (c *Cluster) findServices(context.Context) (resource, error) {
	r := resourceOf(c.client.CoreV1().Services(metav1.NamespaceAll))
	// Headless services aren't needed.
	r.fields = fields.OneTermNotEqualSelector("spec.clusterIP", v1.ClusterIPNone).String()
	return r, nil
}

func cutService(o runtime.Object) (service, bool) {
	s, ok := o.(*v1.Service)
	if !ok || s.Spec.ClusterIP == "" || s.Spec.ClusterIP == v1.ClusterIPNone {
		return service{}, false
	}
	// The object isn't kept, and its strings may be parts of a whole answer.
	cut := service{
		namespace: strings.Clone(s.Namespace), name: strings.Clone(s.Name), ip: strings.Clone(s.Spec.ClusterIP),
		ports: make([]port, len(s.Spec.Ports)),
	}
	for i, p := range s.Spec.Ports {
		cut.ports[i] = port{strings.Clone(p.Name), strings.Clone(strings.ToUpper(string(p.Protocol))), p.Port}
		if p.Protocol == "" {
			cut.ports[i].protocol = string(v1.ProtocolTCP)
		}
	}
	return cut, true
}

// Services are the variables of the services that the pod's containers may see, as of the kubelet's getServiceEnvVarMap: those of the API
// server's in any case, those of the pod's namespace if it wants service links, by the services' names. A pod that isn't static has to
// wait, that is the error, until services have been read once.
func (c *Cluster) Services(pod *v1.Pod) ([]criconfig.EnvVar, error) {
	links := ptr.Deref(pod.Spec.EnableServiceLinks, true)
	found, read := c.services.find(pod.UID, func(s service) bool {
		return s.namespace == pod.Namespace && links || s.isMaster()
	})
	if !read && !criconfig.Static(pod) {
		return nil, errServicesUnread
	}
	return variables(shadowed(found, pod.Namespace)), nil
}

func (s service) isMaster() bool { return s.namespace == metav1.NamespaceDefault && s.name == master }

// shadowed are the services in the order of their names, one of each: that of the namespace, rather than the API server's.
func shadowed(services []service, namespace string) []service {
	slices.SortFunc(services, func(a, b service) int {
		switch {
		case a.name != b.name:
			return strings.Compare(a.name, b.name)
		case a.namespace == namespace:
			return -1
		default:
			return 1
		}
	})
	return slices.CompactFunc(services, func(a, b service) bool { return a.name == b.name })
}

// variables are those of the services, in the order of the kubelet's pkg/kubelet/envvars.
func variables(services []service) []criconfig.EnvVar {
	var env []criconfig.EnvVar
	set := func(name, value string) { env = append(env, criconfig.EnvVar{Name: name, Value: value}) }
	for _, s := range services {
		if len(s.ports) == 0 {
			continue
		}
		prefix := variableName(s.name)
		set(prefix+"_SERVICE_HOST", s.ip)
		set(prefix+"_SERVICE_PORT", s.ports[0].text())
		for _, p := range s.ports {
			if p.name != "" {
				set(prefix+"_SERVICE_PORT_"+variableName(p.name), p.text())
			}
		}
		// What Docker's links had.
		set(prefix+"_PORT", s.ports[0].url(s.ip))
		for _, p := range s.ports {
			link := prefix + "_PORT_" + p.text() + "_" + p.protocol
			set(link, p.url(s.ip))
			set(link+"_PROTO", strings.ToLower(p.protocol))
			set(link+"_PORT", p.text())
			set(link+"_ADDR", s.ip)
		}
	}
	return env
}

func (p port) text() string { return strconv.Itoa(int(p.number)) }

func (p port) url(ip string) string {
	return strings.ToLower(p.protocol) + "://" + net.JoinHostPort(ip, p.text())
}

func variableName(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }
