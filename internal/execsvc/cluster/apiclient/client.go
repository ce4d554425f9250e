package apiclient

import (
	"fmt"
	"net/http"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// Client is a client of one API server. Its requests share one connection and one rate limit. It is safe for concurrent
// use.
type Client struct {
	core, node, coordination, certificates, betaCertificates, authentication, authorization, storage rest.Interface
}

// serializers encode and decode the groups of Client. They are made when the first Client is: a node without an API
// server needs none.
var serializers = sync.OnceValue(func() runtime.NegotiatedSerializer {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	for _, add := range []func(*runtime.Scheme) error{
		v1.AddToScheme, nodev1.AddToScheme, coordinationv1.AddToScheme, certificatesv1.AddToScheme, certificatesv1beta1.AddToScheme,
		authenticationv1.AddToScheme, authorizationv1.AddToScheme, storagev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err) // The types are the same in each run.
		}
	}
	return rest.CodecFactoryForGeneratedClient(scheme, serializer.NewCodecFactory(scheme)).WithoutConversion()
})

// New returns a Client. It doesn't connect. A rate limiter in the config takes precedence over its QPS and Burst.
func New(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	config.NegotiatedSerializer = serializers()
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	if config.RateLimiter == nil && config.QPS > 0 {
		if config.Burst <= 0 {
			return nil, fmt.Errorf("a client with %v requests per second has a burst of %d; want 1 at least", config.QPS, config.Burst)
		}
		// Otherwise each group would have its own limit.
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(config.QPS, config.Burst)
	}
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	c := &Client{}
	for _, group := range []struct {
		client  *rest.Interface
		version schema.GroupVersion
	}{
		{&c.core, v1.SchemeGroupVersion},
		{&c.node, nodev1.SchemeGroupVersion},
		{&c.coordination, coordinationv1.SchemeGroupVersion},
		{&c.certificates, certificatesv1.SchemeGroupVersion},
		{&c.betaCertificates, certificatesv1beta1.SchemeGroupVersion},
		{&c.authentication, authenticationv1.SchemeGroupVersion},
		{&c.authorization, authorizationv1.SchemeGroupVersion},
		{&c.storage, storagev1.SchemeGroupVersion},
	} {
		if *group.client, err = groupClient(config, group.version, transport); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func groupClient(config *rest.Config, version schema.GroupVersion, transport *http.Client) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &version, "/apis"
	if version.Group == v1.GroupName {
		config.APIPath = "/api"
	}
	return rest.RESTClientForConfigAndClient(config, transport)
}
