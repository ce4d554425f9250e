package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"

	"github.com/podstream/podstream/internal/errorbody"
)

// server is the API server, and the connections to it.
type server struct {
	// address is scheme and host, for messages.
	address   string
	client    rest.Interface
	transport http.RoundTripper
	// dials counts the connections that were made.
	dials *atomic.Uint64
	// identity is set before the first request.
	identity *identity
	release  *release
}

// codecs has the core types, and the metadata of all kinds; client-go's own scheme would link all of Kubernetes' API groups.
var codecs = func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, v1.SchemeGroupVersion)
	if err := errors.Join(v1.AddToScheme(scheme), metav1.AddMetaToScheme(scheme)); err != nil {
		panic(err) // two types of one name: a bug in this program
	}
	return serializer.NewCodecFactory(scheme)
}()

// clientConfig returns the client's configuration.
func clientConfig(cfg Config) (*rest.Config, error) {
	switch {
	case cfg.RESTConfig != nil:
		return rest.CopyConfig(cfg.RESTConfig), nil
	case cfg.InCluster:
		client, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("source api: the service account of this pod: %w", err)
		}
		return client, nil
	case cfg.Kubeconfig != "":
		client, err := readKubeconfig(cfg.Kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("source api: kubeconfig %s: %w", cfg.Kubeconfig, err)
		}
		return client, nil
	default:
		return nil, errors.New("source api: no kubeconfig")
	}
}

func readKubeconfig(path string) (*rest.Config, error) {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, err
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		return nil, err
	}
	return clientcmd.NewDefaultClientConfig(*config, &clientcmd.ConfigOverrides{}).ClientConfig()
}

// connect makes the client, which has connections of its own.
func connect(cfg *rest.Config) (*server, error) {
	cfg.APIPath, cfg.GroupVersion = "/api", &v1.SchemeGroupVersion
	cfg.NegotiatedSerializer = codecs.WithoutConversion()
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	// Watches aren't limited. Requests of objects are paced by the gate.
	cfg.QPS, cfg.Burst = 100, 500
	// There would be a warning for each request, which a user of podconfigd can't act on.
	cfg.WarningHandlerWithContext = rest.NoWarnings{}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "podstream-podconfigd"
	}
	cfg.Wrap(errorbody.Around)
	dials := &atomic.Uint64{}
	if cfg.Dial == nil && cfg.Transport == nil {
		dialer := &net.Dialer{
			Timeout:         10 * time.Second,
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 10 * time.Second, Count: 3},
		}
		cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			dials.Add(1) // Not before: a check that ends meanwhile says nothing about this connection.
			return conn, err
		}
	}
	if file := cfg.BearerTokenFile; file != "" {
		// client-go's own way keeps a token for 50 s even if it is refused.
		cfg.BearerToken, cfg.BearerTokenFile = "", ""
		cfg.Wrap(transport.ResettableTokenSourceWrapTransport(transport.NewCachedFileTokenSource(file)))
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("source api: the server's address: %w", err)
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("source api: credentials for %s: %w", base.Host, err)
	}
	restClient, err := rest.RESTClientForConfigAndClient(cfg, client)
	if err != nil {
		return nil, fmt.Errorf("source api: client for %s: %w", base.Host, err)
	}
	address := url.URL{Scheme: base.Scheme, Host: base.Host}
	return &server{address: address.String(), client: restClient, transport: client.Transport, dials: dials}, nil
}

// closeIdle closes the unused connections.
func (s *server) closeIdle() { utilnet.CloseIdleConnectionsFor(s.transport) }

// get begins a request, of all namespaces or of none if namespace is empty. client-go doesn't retry it: each failure
// has to be reported.
func (s *server) get(resource, namespace string, options *metav1.ListOptions) *rest.Request {
	return s.client.Get().Resource(resource).NamespaceIfScoped(namespace, namespace != "").
		VersionedParams(options, metav1.ParameterCodec).MaxRetries(0)
}

// list requests a list, or a page of one.
func (s *server) list(ctx context.Context, resource, namespace string, options *metav1.ListOptions) (runtime.Object, error) {
	return s.get(resource, namespace, options).Do(ctx).Get()
}
