package nodecert

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/podstream/podstream/internal/execsvc/cluster/apiclient"
)

// approvalTime is how long one wait for an approval lasts, as in the kubelet. The next one waits for the same
// request.
const approvalTime = 15 * time.Minute

// answerTime is the time limit for one answer of the API server.
const answerTime = 30 * time.Second

// errNotApproved: the request was neither approved nor denied within approvalTime.
var errNotApproved = errors.New("it isn't approved yet")

// refusedError means that the request was denied or failed.
type refusedError struct {
	condition certificatesv1.CertificateSigningRequestCondition
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("certificate signing request is %s: %s %s", e.condition.Type, e.condition.Reason, e.condition.Message)
}

// issuer has the API server sign certificates of one kind, and keeps them in files.
type issuer struct {
	// prefix begins the files' names in dir, signer is the signer's name, and usages are the certificate's.
	prefix, dir, signer string
	usages              func(key any) []certificatesv1.KeyUsage
	// certFile and keyFile are used until a certificate was signed. They may be empty.
	certFile, keyFile string
	log               *slog.Logger
}

// pendingPath returns the file of the key for which a certificate is requested.
func (i *issuer) pendingPath() string { return filepath.Join(i.dir, i.prefix+".key.tmp") }

// issue requests a certificate, waits for it, and writes it to the files. The key stays pending until drop.
func (i *issuer) issue(ctx context.Context, client *apiclient.Client, template *x509.CertificateRequest) error {
	key, keyPEM, err := i.pendingKey()
	if err != nil {
		return err
	}
	request, err := certutil.MakeCSRFromTemplate(key, template)
	if err != nil {
		return fmt.Errorf("make a certificate signing request: %w", err)
	}
	name, err := i.nameOf(key, template)
	if err != nil {
		return err
	}
	pem, err := i.ask(ctx, client, name, request, key)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(pem, keyPEM)
	if err == nil && expired(&pair, time.Now()) {
		err = fmt.Errorf("it expired at %v", pair.Leaf.NotAfter)
	}
	if err != nil {
		i.drop()
		return fmt.Errorf("the certificate of %s is unusable: %w", name, err)
	}
	if _, err := i.save(pem, keyPEM); err != nil {
		return fmt.Errorf("store the certificate of %s: %w", name, err)
	}
	i.log.Info("got a certificate", "csr", name, "signer", i.signer, "expires", pair.Leaf.NotAfter)
	return nil
}

// ask creates the request, or finds the existing one, and waits for the certificate.
func (i *issuer) ask(ctx context.Context, client *apiclient.Client, name string, request []byte, key crypto.Signer) ([]byte, error) {
	waiting, cancel := context.WithTimeout(ctx, approvalTime)
	defer cancel()
	asking, answered := context.WithTimeout(waiting, answerTime)
	uid, err := submit(asking, client, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       certificatesv1.CertificateSigningRequestSpec{Request: request, SignerName: i.signer, Usages: i.usages(key)},
	}, key)
	answered()
	if err == nil {
		i.log.Info("certificate signing request waits for approval", "csr", name, "signer", i.signer)
		var pem []byte
		if pem, err = awaitCertificate(waiting, client, name, uid); err == nil {
			return pem, nil
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	looking, answered := context.WithTimeout(ctx, answerTime)
	defer answered()
	found, notFound := client.SigningRequests().Get(looking, name, metav1.GetOptions{})
	switch {
	case notFound != nil && waiting.Err() != nil:
		return nil, fmt.Errorf("get the certificate signing request: %w", notFound)
	case notFound != nil:
		return nil, err
	case waiting.Err() != nil:
		return nil, fmt.Errorf("certificate signing request %s: %w", name, errNotApproved)
	}
	refused := refusal(found)
	if made, unread := parseRequest(found); refused == nil && unread == nil && hasKey(made, key) {
		// Only a response was lost. The request is found again.
		return nil, err
	}
	// The request is unusable. It is left alone, and the next one has another key.
	i.drop()
	return nil, cmp.Or(refused, err)
}

// refusal returns the reason why there won't be a certificate. Nil: it may still come.
func refusal(found *certificatesv1.CertificateSigningRequest) error {
	for _, c := range found.Status.Conditions {
		if c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed {
			return &refusedError{c}
		}
	}
	return nil
}

// pendingKey returns the key for which a certificate is requested. It is on disk before it is used.
func (i *issuer) pendingKey() (crypto.Signer, []byte, error) {
	if pem, err := os.ReadFile(i.pendingPath()); err == nil {
		if key, err := keyutil.ParsePrivateKeyPEM(pem); err == nil {
			if signer, ok := key.(crypto.Signer); ok {
				return signer, pem, nil
			}
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	pem, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a key: %w", err)
	}
	if err := os.MkdirAll(i.dir, 0o755); err != nil {
		return nil, nil, fmt.Errorf("directory of certificates: %w", err)
	}
	if err := renameio.WriteFile(i.pendingPath(), pem, 0o600); err != nil {
		return nil, nil, fmt.Errorf("write a key: %w", err)
	}
	return key, pem, nil
}

// drop removes the pending key, so that the next request has a new one.
func (i *issuer) drop() { _ = os.Remove(i.pendingPath()) }

// dropUsed calls drop if the pending key is that of an existing certificate: podexecd was killed before drop.
func (i *issuer) dropUsed(c *tls.Certificate) {
	pem, err := os.ReadFile(i.pendingPath())
	if err != nil {
		return
	}
	key, err := keyutil.ParsePrivateKeyPEM(pem)
	if used, ok := c.PrivateKey.(interface{ Equal(crypto.PrivateKey) bool }); err == nil && ok && used.Equal(key) {
		i.drop()
	}
}

// nameOf returns a name derived from the request, so that equal requests have one name.
func (i *issuer) nameOf(key crypto.Signer, template *x509.CertificateRequest) (string, error) {
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", fmt.Errorf("encode a public key: %w", err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%x %q %q %q %q %q", public, i.signer, i.usages(key), template.Subject.String(), template.DNSNames, template.IPAddresses))
	return "node-csr-" + hex.EncodeToString(sum[:]), nil
}
