//! Tags of all resources that have them.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::filter::{Field, Filters};
use super::page::Page;
use super::request::{self, Request, no_such_id};
use super::{Answer, Reading};
use crate::Local;
use crate::change::Change;
use crate::delays::Delays;
use crate::records::Tags;
use crate::wire::Xml;
use crate::world::World;

/// `tagSet` of one resource.
pub(super) fn set(tags: &Tags, at: Timestamp) -> Xml {
    let tags = tags.at(at);
    let items = tags
        .iter()
        .map(|(key, value)| vec![Xml::text("key", key), Xml::text("value", value)]);
    Xml::list("tagSet", items)
}

/// The tags of `id` as of `now`, if it exists.
pub(super) fn tags_of(
    world: &World,
    id: &str,
    now: Timestamp,
    local: &Local,
) -> Option<BTreeMap<String, String>> {
    let instances = world.instances.values();
    let mut spots = instances.filter_map(|instance| instance.spot.as_ref());
    let tags = match id.split('-').next() {
        Some("i") => &world.instance(id, now, local.delays())?.0.tags,
        Some("vol") => {
            &world
                .volumes
                .get(id)
                .filter(|it| it.state(now).is_some())?
                .tags
        }
        Some("snap") => {
            let snapshot = world.snapshots.get(id);
            &snapshot.filter(|it| it.state(now).is_some())?.tags
        }
        Some("sg") => &world.groups.get(id)?.tags,
        Some("eipalloc") => &world.addresses.get(id)?.tags,
        Some("fs") => {
            let known = world.file_systems.get(id);
            &known.filter(|it| it.state(now).is_some())?.tags
        }
        _ => &spots.find(|spot| spot.id == id)?.tags,
    };
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    Some(tags.at(now).into_iter().map(owned).collect())
}

/// The tags of `id`, to be changed, if it exists.
fn tags_mut<'a>(
    world: &'a mut World,
    id: &str,
    now: Timestamp,
    delays: &Delays,
) -> Option<&'a mut Tags> {
    if id.starts_with("i-") {
        world.instance(id, now, delays)?;
        return world
            .instances
            .get_mut(id)
            .map(|instance| &mut instance.tags);
    }
    if id.starts_with("vol-") {
        let volume = world.volumes.get_mut(id)?;
        return volume.state(now).is_some().then_some(&mut volume.tags);
    }
    if id.starts_with("snap-") {
        let snapshot = world.snapshots.get_mut(id)?;
        return snapshot.state(now).is_some().then_some(&mut snapshot.tags);
    }
    if id.starts_with("eipalloc-") {
        return world.addresses.get_mut(id).map(|address| &mut address.tags);
    }
    if id.starts_with("sg-") {
        return world.groups.get_mut(id).map(|group| &mut group.tags);
    }
    let spots = world
        .instances
        .values_mut()
        .filter_map(|instance| instance.spot.as_mut());
    spots
        .filter(|spot| spot.id == id)
        .map(|spot| &mut spot.tags)
        .next()
}

/// `CreateTags`: on all resources named, or, if one does not exist, on none.
pub(super) fn create(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let tags = request::tags(request.params())?;
    let now = change.now;
    let delays = change.local.delays().clone();
    for id in request.list("ResourceId") {
        let known = tags_mut(&mut change.world, id, now, &delays).ok_or_else(|| no_such_id(id))?;
        for (key, value) in &tags {
            known.set(now, key, Some(value));
        }
        request::check_count(known.at(now).len())?;
    }
    Ok(vec![Xml::text("return", true)])
}

/// `DeleteTags`: by key, or by key and value; without any, all.
pub(super) fn delete(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let named = request.params().structs("Tag");
    let now = change.now;
    let delays = change.local.delays().clone();
    for id in request.list("ResourceId") {
        let known = tags_mut(&mut change.world, id, now, &delays).ok_or_else(|| no_such_id(id))?;
        let there: BTreeMap<String, String> = known
            .at(now)
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        for (key, value) in &there {
            let goes = named.is_empty()
                || named.iter().any(|tag| {
                    tag.get("Key") == Some(key)
                        && tag.get("Value").is_none_or(|given| given == value)
                });
            if goes {
                known.set(now, key, None);
            }
        }
    }
    Ok(vec![Xml::text("return", true)])
}

/// `DescribeTags`.
pub(super) fn describe(reading: &Reading<'_>) -> Answer {
    let request = reading.request;
    let filters = Filters::new(
        request,
        &[
            "key",
            "resource-id",
            "resource-type",
            "value",
            "tag-key",
            "tag-value",
        ],
        true,
    )?;
    let page = Page::new(request, "DescribeTags", 5, false)?;
    let (world, at) = (reading.world, reading.lists);
    let listed = |id: &str| world.instance(id, at, &reading.inner.delays).is_some();
    let instances = world.instances.iter().filter(|(id, _)| listed(id));
    let volumes = world
        .volumes
        .iter()
        .filter(|(_, volume)| volume.state(at).is_some());
    let snapshots = world
        .snapshots
        .iter()
        .filter(|(_, snapshot)| snapshot.state(at).is_some());
    let spots = world.instances.iter().filter(|(id, _)| listed(id));
    let spots = spots.filter_map(|(_, instance)| instance.spot.as_ref());
    let all = instances
        .map(|(id, instance)| (id, "instance", &instance.tags))
        .chain(volumes.map(|(id, volume)| (id, "volume", &volume.tags)))
        .chain(snapshots.map(|(id, snapshot)| (id, "snapshot", &snapshot.tags)))
        .chain(
            world
                .groups
                .iter()
                .map(|(id, group)| (id, "security-group", &group.tags)),
        )
        .chain(spots.map(|spot| (&spot.id, "spot-instances-request", &spot.tags)));
    let mut found = Vec::new();
    for (id, kind, tags) in all {
        for (key, value) in tags.at(at) {
            let passes = filters.pass(&BTreeMap::from([(key, value)]), |name| match name {
                "key" => Field::one(key),
                "value" => Field::one(value),
                "resource-id" => Field::one(id),
                "resource-type" => Field::one(kind),
                _ => Field::Unknown,
            })?;
            if passes {
                let item = vec![
                    Xml::text("resourceId", id),
                    Xml::text("resourceType", kind),
                    Xml::text("key", key),
                    Xml::text("value", value),
                ];
                found.push((format!("{id} {key}"), item));
            }
        }
    }
    Ok(page.answer("tagSet", found))
}
