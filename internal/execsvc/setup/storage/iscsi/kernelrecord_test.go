//go:build iscsiguest

package iscsi_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign/initiator"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/iscsi"
)

// TestKernelDiscovery: the records that a discovery of the host makes beside podexecd's session stay, and so does an iface of theirs.
func TestKernelDiscovery(t *testing.T) {
	n := newNode(t)
	g := newTarget(t, "found", []string{portal1}, newDisk(t, "found-a"), newDisk(t, "found-b"))
	for _, initiator := range []string{"", "iqn.2026-11.example:another"} {
		v, second := pv("pv", g, 0), pv("pv", g, 1)
		if initiator != "" {
			v.Spec.ISCSI.InitiatorName, second.Spec.ISCSI.InitiatorName = ptr.To(initiator), ptr.To(initiator)
		}
		vol, other := n.volume("u1", v), n.volume("u2", second)
		must(t, vol.up())
		t.Logf("discovery: %s", command(t, "iscsiadm", "-m", "discovery", "-t", "sendtargets", "-p", portal1))
		t.Logf("records: %s", command(t, "iscsiadm", "-m", "node", "-P", "1"))
		must(t, other.up())
		must(t, vol.down())
		must(t, other.down())
		if g.sessions() != 0 {
			t.Errorf("%d sessions", g.sessions())
		}
		records, err := try("iscsiadm", "-m", "node")
		if err != nil || !strings.Contains(records, portal1+",1 "+g.iqn) {
			t.Errorf("the host's record isn't left: %s, %v", records, err)
		}
		refused := n.volume("u3", v)
		if _, is := errors.AsType[*iscsi.NotOwnError](refused.up()); !is {
			t.Error("the host's record is used")
		}
		must(t, refused.down())
		command(t, "iscsiadm", "-m", "node", "-T", g.iqn, "-p", portal1, "-o", "delete")
		command(t, "iscsiadm", "-m", "discoverydb", "-t", "sendtargets", "-p", portal1, "-o", "delete")
		if initiator != "" {
			command(t, "iscsiadm", "-m", "iface", "-I", portal1+":pv", "-o", "delete")
		}
		next := n.volume("u4", v)
		must(t, next.up())
		must(t, next.down())
		if _, err := try("iscsiadm", "-m", "node"); err == nil {
			t.Error("a record is left")
		}
	}
}

// TestKernelPortalName: a portal's address and its host name are one session, and open-iscsi has the address.
func TestKernelPortalName(t *testing.T) {
	const name = "localhost:3260"
	n := newNode(t)
	g := newTarget(t, "name", []string{portal1}, newDisk(t, "name-a"), newDisk(t, "name-b"))
	byName, byAddress := pv("name", g, 0), pv("address", g, 1)
	byName.Spec.ISCSI.TargetPortal = name
	for range 2 {
		first, second := n.volume("u1", byName), n.volume("u2", byAddress)
		must(t, first.up())
		must(t, second.up())
		n.restart()
		must(t, first.up())
		if records := command(t, "iscsiadm", "-m", "node", "-P", "1"); g.sessions() != 1 || strings.Contains(records, "localhost") {
			t.Errorf("%d sessions, records: %s", g.sessions(), records)
		}
		must(t, second.down())
		must(t, first.down())
		n.same(n.begin)
		byName, byAddress = byAddress, byName
	}
}

// TestKernelPowerCut: power is cut between the making of a record of open-iscsi and its first setting, and the boot logs in by it. The
// session and the record stay, as they may be another program's, until the commands of the error are run.
func TestKernelPowerCut(t *testing.T) {
	const conf = "/etc/iscsi/iscsid.conf"
	n := newNode(t)
	g := newTarget(t, "cut", []string{portal1}, newDisk(t, "cut"))
	before, err := os.ReadFile(conf)
	must(t, err)
	t.Cleanup(func() { must(t, os.WriteFile(conf, before, 0o600)) })
	must(t, os.WriteFile(conf, []byte(strings.ReplaceAll(string(before), "\nnode.startup = manual\n", "\nnode.startup = automatic\n")), 0o600))
	begin := n.state()
	for _, gone := range []bool{false, true} {
		vol := n.volume("u1", pv("pv", g, 0))
		dir := t.TempDir()
		program, waits := filepath.Join(dir, "iscsiadm"), filepath.Join(dir, "waits")
		must(t, os.WriteFile(program, []byte("#!/bin/sh\ncase \"$*\" in *'-o update'*) echo $$ > "+waits+"; exec sleep infinity ;; esac\nexec iscsiadm \"$@\"\n"), 0o700))
		n.stop()
		n.helpers = foreign.New(foreign.Config{Limit: time.Minute})
		n.Backend, err = iscsi.New(iscsi.Config{
			Dir: n.records, Agent: "agent", Boot: n.boot, Helpers: n.helpers, Secrets: n.secrets, Host: initiator.Host{Iscsiadm: program},
		})
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- n.Stage(ctx, vol.stage) }()
		pid := 0
		eventually(t, time.Minute, func() error {
			data, err := os.ReadFile(waits)
			if err == nil {
				_, err = fmt.Sscan(string(data), &pid)
			}
			return err
		})
		cancel()
		if err := <-done; storage.OutcomeOf(err) != storage.Uncertain {
			t.Errorf("error %v", err)
		}
		_ = unix.Kill(pid, unix.SIGKILL)
		n.boot += "x"
		n.restart()
		t.Logf("the boot: %s", command(t, "iscsiadm", "-m", "node", "--loginall=automatic"))
		if g.sessions() != 1 {
			t.Fatalf("%d sessions", g.sessions())
		}
		if gone {
			must(t, vol.down())
		} else if err := vol.up(); err == nil || !strings.Contains(err.Error(), "hadn't finished") {
			t.Errorf("error %v", err)
		}
		if g.sessions() != 1 {
			t.Errorf("%d sessions", g.sessions())
		}
		command(t, "iscsiadm", "-m", "node", "-T", g.iqn, "-p", portal1, "-I", "default", "--logout")
		command(t, "iscsiadm", "-m", "node", "-T", g.iqn, "-p", portal1, "-I", "default", "-o", "delete")
		if !gone {
			must(t, vol.up())
			vol.write("file", "data")
			must(t, vol.down())
		}
		n.swept()
		n.same(begin)
	}
}
