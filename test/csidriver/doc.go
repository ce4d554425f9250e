// Package csidriver is a CSI driver for tests: its volumes are real, and it can be killed at any time.
//
// A volume is a directory that is bind-mounted, or an image file with a loop device and ext4 (Backing). The driver serves the CSI
// services Identity, Controller and Node, the registration service of plugins, so that it needs no registrar, and a control socket
// for faults (package fault). It logs each call before it acts (package calllog). Tests run it in their process (Start), or as the
// program csidriverd, which only has flags for the Options.
//
// A test uses it so:
//
//	driver, err := csidriver.Start(csidriver.Options{Dir: dir, Registration: registry + "/test-reg.sock", Endpoint: plugins + "/test/csi.sock"})
//	<-driver.Registered()
//	id, err := driver.Faults.Add(ctx, fault.Fault{Method: "NodeStageVolume", Action: fault.Hold})
//	// ... start a pod ...
//	err = driver.Faults.Await(ctx, id, 1)
//	err = driver.Faults.Release(ctx, id)
//	// ... delete the pod ...
//	log, err := calllog.Read(driver.Options().Log)
//	problems := append(calllog.Check(log.Calls), calllog.NothingLeft(log.Calls)...)
//
// # State
//
// All state lies in Options.Dir, and is read for each call: volumes/ has a file for each volume, nodes/NODE/ what is staged and published
// on a node, written before anything is mounted; data/ and images/ have the volumes' contents. What is mounted is read from
// mountinfo and losetup. So drivers of several nodes may share the directory, as with storage on a network; a lock file orders their changes.
//
// # Calls
//
// A call that changes a volume fails with Aborted while another call for the volume acts. A call goes on when its caller has gone, as with
// most drivers.
//
// # Goroutines
//
// Each server has one, gRPC has some for each connection, and a call has one for a moment when its caller goes. Stop and
// Kill return after all have ended.
package csidriver
