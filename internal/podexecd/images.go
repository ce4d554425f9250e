package podexecd

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/cri/credential"
	"github.com/podstream/podstream/internal/execsvc/cri/pullrecord"
	"github.com/podstream/podstream/internal/imagepolicy"
)

// openImages opens the sources of credentials for images, and the records of pulls.
func (n *node) openImages() error {
	settings := n.opts.settings
	cfg := credential.Config{
		Secrets: n.objects, Files: credential.DefaultFiles(n.opts.RootDir), PluginConfig: settings.CredentialProviderConfig,
		PluginDir: settings.CredentialProviderBinDir, NoTokens: settings.NoCredentialProviderTokens, Events: n.events, Metrics: n.registry, Logger: n.log,
	}
	if n.cluster != nil {
		cfg.Accounts = clusterAccounts{n.cluster}
	}
	var err error
	if n.keyring, err = credential.New(cfg); err != nil {
		return err
	}
	policy, err := imagepolicy.New(settings.VerificationPolicy, settings.VerificationAllowlist)
	if err != nil {
		return fmt.Errorf("imagePullCredentialsVerificationPolicy: %w", err)
	}
	n.pulls, err = pullrecord.New(pullrecord.Config{RootDir: n.opts.RootDir, Policy: policy, Metrics: n.registry, Logger: n.log})
	return err
}

// tokenTimeout is how long a request for a credential provider's token may take.
const tokenTimeout = 10 * time.Second

// clusterAccounts has the service accounts of the cluster, for credential providers.
type clusterAccounts struct{ c *cluster }

func (a clusterAccounts) Account(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error) {
	return a.c.accounts.Get(ctx, namespace, name)
}

func (a clusterAccounts) Token(ctx context.Context, pod *v1.Pod, account *v1.ServiceAccount, audience string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	return a.c.tokens.ForAccount(ctx, pod, account, audience)
}
