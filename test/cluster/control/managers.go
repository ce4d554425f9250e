package control

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"time"
)

// StartManagers starts a kube-controller-manager with all its usual controllers and a kube-scheduler, each as
// its usual Kubernetes user, and waits until they are healthy. The controller manager signs the nodes'
// certificates with the Plane's authority.
func (p *Plane) StartManagers(ctx context.Context) error {
	if err := p.startManager(ctx, "kube-controller-manager",
		"--use-service-account-credentials=true", "--service-account-private-key-file="+p.Path("tokens.key"), "--root-ca-file="+p.Authority.File,
		"--cluster-signing-cert-file="+p.Authority.File, "--cluster-signing-key-file="+p.Authority.KeyFile,
		"--authentication-skip-lookup=true"); err != nil {
		return err
	}
	return p.startManager(ctx, "kube-scheduler", "--authentication-skip-lookup=true")
}

// startManager starts a daemon that works through the server.
func (p *Plane) startManager(ctx context.Context, name string, flags ...string) error {
	credentials, err := p.Authority.Issue("system:"+name, "managers", time.Now().Add(CertificateLife))
	if err != nil {
		return err
	}
	kubeconfig := p.Path(name + ".kubeconfig")
	if err := ReplaceFile(p.Path(name+".pem"), credentials); err != nil {
		return err
	}
	if err := p.Authority.WriteKubeconfig(kubeconfig, p.URL, p.Path(name+".pem")); err != nil {
		return err
	}
	ports, err := FreePorts(1)
	if err != nil {
		return err
	}
	process, err := StartProcess(name, p.Path(name+".log"), filepath.Join(p.config.Tools, name), append([]string{
		"--kubeconfig=" + kubeconfig, "--bind-address=" + Loopback, "--secure-port=" + strconv.Itoa(ports[0]), "--leader-elect=false",
	}, flags...)...)
	if err != nil {
		return err
	}
	p.others = append(p.others, process)
	health := "https://" + net.JoinHostPort(Loopback, strconv.Itoa(ports[0])) + "/healthz"
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // its certificate is self-signed
	defer client.CloseIdleConnections()
	return Until(ctx, process, name+" is well", func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, health, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", health, resp.Status)
		}
		return nil
	})
}
