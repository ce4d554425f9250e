package apiclient

import (
	"context"

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
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
)

// object is what a resource has.
type object interface {
	runtime.Object
	metav1.Object
}

// resource returns a resource that is created, read and changed. An empty namespace: the resource has none.
func resource[T object](client rest.Interface, name, namespace string, empty func() T) *gentype.Client[T] {
	return gentype.NewClient(name, client, metav1.ParameterCodec, namespace, empty, gentype.PrefersProtobuf[T]())
}

// listed returns a resource that is listed and watched too. An empty namespace: all namespaces, or the resource has none.
func listed[T object, L runtime.Object](
	client rest.Interface, name, namespace string, empty func() T, emptyList func() L,
) *gentype.ClientWithList[T, L] {
	return gentype.NewClientWithList(name, client, metav1.ParameterCodec, namespace, empty, emptyList, gentype.PrefersProtobuf[T]())
}

// Core returns the client of the core API, for requests that have no method here.
func (c *Client) Core() rest.Interface { return c.core }

// Nodes are the Nodes.
func (c *Client) Nodes() *gentype.ClientWithList[*v1.Node, *v1.NodeList] {
	return listed(c.core, "nodes", "", func() *v1.Node { return &v1.Node{} }, func() *v1.NodeList { return &v1.NodeList{} })
}

// Services are the services of all namespaces.
func (c *Client) Services() *gentype.ClientWithList[*v1.Service, *v1.ServiceList] {
	return listed(c.core, "services", metav1.NamespaceAll, func() *v1.Service { return &v1.Service{} },
		func() *v1.ServiceList { return &v1.ServiceList{} })
}

// RuntimeClasses are the RuntimeClasses.
func (c *Client) RuntimeClasses() *gentype.ClientWithList[*nodev1.RuntimeClass, *nodev1.RuntimeClassList] {
	return listed(c.node, "runtimeclasses", "", func() *nodev1.RuntimeClass { return &nodev1.RuntimeClass{} },
		func() *nodev1.RuntimeClassList { return &nodev1.RuntimeClassList{} })
}

// Leases are the leases of a namespace.
func (c *Client) Leases(namespace string) *gentype.Client[*coordinationv1.Lease] {
	return resource(c.coordination, "leases", namespace, func() *coordinationv1.Lease { return &coordinationv1.Lease{} })
}

// SigningRequests are the CertificateSigningRequests.
func (c *Client) SigningRequests() *gentype.ClientWithList[*certificatesv1.CertificateSigningRequest, *certificatesv1.CertificateSigningRequestList] {
	return listed(c.certificates, "certificatesigningrequests", "",
		func() *certificatesv1.CertificateSigningRequest { return &certificatesv1.CertificateSigningRequest{} },
		func() *certificatesv1.CertificateSigningRequestList {
			return &certificatesv1.CertificateSigningRequestList{}
		})
}

// TrustBundles are the ClusterTrustBundles.
func (c *Client) TrustBundles() *gentype.ClientWithList[*certificatesv1.ClusterTrustBundle, *certificatesv1.ClusterTrustBundleList] {
	return listed(c.certificates, "clustertrustbundles", "", func() *certificatesv1.ClusterTrustBundle { return &certificatesv1.ClusterTrustBundle{} },
		func() *certificatesv1.ClusterTrustBundleList { return &certificatesv1.ClusterTrustBundleList{} })
}

// BetaTrustBundles are the ClusterTrustBundles of v1beta1.
func (c *Client) BetaTrustBundles() *gentype.ClientWithList[*certificatesv1beta1.ClusterTrustBundle, *certificatesv1beta1.ClusterTrustBundleList] {
	return listed(c.betaCertificates, "clustertrustbundles", "",
		func() *certificatesv1beta1.ClusterTrustBundle { return &certificatesv1beta1.ClusterTrustBundle{} },
		func() *certificatesv1beta1.ClusterTrustBundleList {
			return &certificatesv1beta1.ClusterTrustBundleList{}
		})
}

// TokenReviews authenticate tokens.
func (c *Client) TokenReviews() *gentype.Client[*authenticationv1.TokenReview] {
	return resource(c.authentication, "tokenreviews", "", func() *authenticationv1.TokenReview { return &authenticationv1.TokenReview{} })
}

// AccessReviews are the SubjectAccessReviews.
func (c *Client) AccessReviews() *gentype.Client[*authorizationv1.SubjectAccessReview] {
	return resource(c.authorization, "subjectaccessreviews", "",
		func() *authorizationv1.SubjectAccessReview { return &authorizationv1.SubjectAccessReview{} })
}

// ServiceAccount returns a service account. It is an apiaccounts.Config.Get.
func (c *Client) ServiceAccount(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error) {
	accounts := resource(c.core, "serviceaccounts", namespace, func() *v1.ServiceAccount { return &v1.ServiceAccount{} })
	return accounts.Get(ctx, name, metav1.GetOptions{})
}

// Secret returns a Secret. There are no other requests for Secrets.
func (c *Client) Secret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	secrets := resource(c.core, "secrets", namespace, func() *v1.Secret { return &v1.Secret{} })
	return secrets.Get(ctx, name, metav1.GetOptions{})
}

// Claims are the PersistentVolumeClaims of a namespace. A node may only get them.
func (c *Client) Claims(namespace string) *gentype.Client[*v1.PersistentVolumeClaim] {
	return resource(c.core, "persistentvolumeclaims", namespace, func() *v1.PersistentVolumeClaim { return &v1.PersistentVolumeClaim{} })
}

// PersistentVolumes are the PersistentVolumes. A node may only get them.
func (c *Client) PersistentVolumes() *gentype.Client[*v1.PersistentVolume] {
	return resource(c.core, "persistentvolumes", "", func() *v1.PersistentVolume { return &v1.PersistentVolume{} })
}

// VolumeAttachments are the VolumeAttachments. A node may only get those of its own.
func (c *Client) VolumeAttachments() *gentype.Client[*storagev1.VolumeAttachment] {
	return resource(c.storage, "volumeattachments", "", func() *storagev1.VolumeAttachment { return &storagev1.VolumeAttachment{} })
}

// CSIDrivers are the CSIDrivers.
func (c *Client) CSIDrivers() *gentype.ClientWithList[*storagev1.CSIDriver, *storagev1.CSIDriverList] {
	return listed(c.storage, "csidrivers", "", func() *storagev1.CSIDriver { return &storagev1.CSIDriver{} },
		func() *storagev1.CSIDriverList { return &storagev1.CSIDriverList{} })
}

// CSINodes are the CSINodes. A node may get and change its own.
func (c *Client) CSINodes() *gentype.Client[*storagev1.CSINode] {
	return resource(c.storage, "csinodes", "", func() *storagev1.CSINode { return &storagev1.CSINode{} })
}

// CreateToken requests a token of a service account. It is a token.Requests.
func (c *Client) CreateToken(
	ctx context.Context, namespace, account string, request *authenticationv1.TokenRequest,
) (*authenticationv1.TokenRequest, error) {
	made := &authenticationv1.TokenRequest{}
	err := c.core.Post().UseProtobufAsDefault().Namespace(namespace).Resource("serviceaccounts").Name(account).SubResource("token").
		Body(request).Do(ctx).Into(made)
	return made, err
}

// Served returns the resources that the API server has in a version of a group. A version that it doesn't have is an
// error for which apierrors.IsNotFound is true.
func (c *Client) Served(ctx context.Context, version schema.GroupVersion) ([]metav1.APIResource, error) {
	var list metav1.APIResourceList
	err := c.certificates.Get().AbsPath("/apis", version.Group, version.Version).Do(ctx).Into(&list)
	return list.APIResources, err
}
