// Package skew runs the daemons of this version with those of the previous one. The two are upgraded and downgraded one at
// a time, in either order, on containerd: each version opens the other one's stores, the stream resumes, and no container
// restarts. The one exception is a downgrade across the change of the containers' hash: podexecd of the previous version
// restarts once what this version created.
//
// The file previous has the commit of the previous version. After a release, change it and restartsOnDowngrade. The test builds
// that commit from the clone's history, so the clone must not be shallow.
package skew
