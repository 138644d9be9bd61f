// Package cluster connects to one API server the way a controller should:
//
//	c, err := cluster.New(config, nil)
//	pods := c.Client().CoreV1().Pods
//	websites, err := cluster.NewKind[*v1.Website, *v1.WebsiteList](c,
//		v1.GroupVersion.WithResource("websites"), v1.AddToScheme)
//
// It makes clients for the built-in kinds ([Cluster.Client]) and for your own
// kinds ([NewKind]), and the rest.Config from which all other clients are made,
// for example generated ones.
//
//	rest.Config ──▶ cluster.New ──▶ Client, NewKind, Config ──▶ any client ──▶ writes are seen
//
// The contract:
//
//   - Every write is seen: a write by a client of that config with the context
//     of a reconcile is recorded, before it is sent and when it is answered,
//     and package reconcile holds the key until its caches show it. The client
//     need not report anything. A write that no cache will show causes no
//     delay.
//   - Clients do not throttle themselves: the server has flow control.
//   - The client for built-in kinds speaks protobuf, clients for your own kinds
//     JSON.
//   - Check reports a kind that the server does not have under its name, with
//     what the server has instead.
//   - An answer that reports success but is not an API server's, such as a
//     redirect to a login page or the {} of a gateway, is an error. A
//     Retry-After of more than a minute, which no API server sends, is cut to a
//     minute.
//   - In a reconcile, an answer whose Retry-After is more than a second is an
//     error at once. The error contains the delay, after which package
//     reconcile retries the key.
//   - An answer from a cache or a part of one, as the header Age or the status
//     206 shows, is an error, whatever it says.
//   - If requests have failed for half a minute and none has succeeded, the
//     next ones use a new connection, which another API server behind the same
//     address may accept.
//   - Requests and all other answers are not changed. Watches, exec, logs and
//     proxies are passed through unread.
//   - It can be combined with a leader's fence, in either order. A write that a
//     fence beneath it refuses before it is sent is not waited for.
//
// An answer may be lost after the server has carried out the request. The
// outcome of such a write is unknown, as it is after an answer with a status of
// 500 or more, or after an answer that is not the server's. The key then waits
// until the caches are as new as the server was afterwards. A request that the
// server carries out even later is not waited for.
//
// The package does not retry requests, and does not cache objects. client-go
// retries a request that is answered with a Retry-After of at most a second,
// and outside of a reconcile of at most a minute, up to ten times.
package cluster
