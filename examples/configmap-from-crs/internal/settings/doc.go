// Package settings publishes the Settings of each namespace as one ConfigMap:
//
//	controller, err := settings.New(client, kind.In, nil)
//
// Many inputs make one output, and both can change at any time. For example, a
// user edits a Setting while another user edits the ConfigMap. A controller
// that watches only its inputs never learns of the second edit.
//
//	Settings ───▶ key: the namespace's ConfigMap ──▶ reconcile: render all Settings
//	ConfigMap ──▶                                    │  ├──▶ ConfigMap as it must be
//	   ▲                                             │  └──▶ conditions of the Settings
//	   └─────────────── what we write, we watch ◀────┘
//
// The contract:
//
//   - The ConfigMap depends only on the current Settings. It does not keep
//     older values, and changes by other clients are overwritten.
//   - The ConfigMap is deleted after the last Setting, when the server
//     confirms that there are no more Settings.
//   - A ConfigMap that has the name but not our label is never modified. The
//     conditions of the Settings report such a ConfigMap.
package settings
