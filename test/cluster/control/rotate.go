package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Rotate replaces the authority of the cluster, in the order of Kubernetes' documentation: first all clients and the server
// trust both authorities; then the server, and in replaceClients the clients, get certificates of the new one; then the old
// one is no longer trusted. In trustBoth, the clients read the file of the authority again. The server restarts twice. On an
// error the old authority may be gone in part.
func (p *Plane) Rotate(ctx context.Context, trustBoth, replaceClients func()) error {
	dir := p.Path("next-authority")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	next, err := NewAuthority(dir)
	if err != nil {
		return err
	}
	next.Addresses = p.Authority.Addresses
	oldest, err := os.ReadFile(p.Authority.File)
	if err != nil {
		return err
	}
	newest, err := os.ReadFile(next.File)
	if err != nil {
		return err
	}
	key, err := os.ReadFile(next.KeyFile)
	if err != nil {
		return err
	}
	if err := ReplaceFile(p.Authority.File, append(oldest, newest...)); err != nil {
		return err
	}
	if err := ReplaceFile(p.Authority.KeyFile, key); err != nil {
		return err
	}
	trustBoth()
	p.Authority.cert, p.Authority.key = next.cert, next.key
	if err := p.issue(); err != nil {
		return err
	}
	if err := errors.Join(p.Stop(), p.Resume(ctx)); err != nil {
		return fmt.Errorf("restart the server with a certificate of the new authority: %w", err)
	}
	replaceClients()
	if err := ReplaceFile(p.Authority.File, newest); err != nil {
		return err
	}
	if err := errors.Join(p.Stop(), p.Resume(ctx)); err != nil {
		return fmt.Errorf("restart the server without the old authority: %w", err)
	}
	return nil
}

// issue issues the certificates of the administrator and the server, and writes their files.
func (p *Plane) issue() (err error) {
	notAfter := time.Now().Add(CertificateLife)
	if p.admin, err = p.Authority.Issue("admin", "system:masters", notAfter); err != nil {
		return err
	}
	serving, err := p.Authority.Issue("kube-apiserver", "servers", notAfter)
	if err != nil {
		return err
	}
	toNodes, err := p.Authority.Issue(KubeletClient, "servers", notAfter)
	if err != nil {
		return err
	}
	return errors.Join(ReplaceFile(p.Path("admin.pem"), p.admin), ReplaceFile(p.Path("serving.pem"), serving),
		ReplaceFile(p.Path("kubelet-client.pem"), toNodes))
}
