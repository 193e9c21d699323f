"""The names of IFTTT's services as of 2016, to find where a service's name ends in a run-together rule.

Facts: the 178 services that the RecRules files use (Corno et al. 2019, after the crawl of Ur et al. 2016), under the
names that IFTTT gave them ("channels" then), in lower case with `_` for blanks and without other marks: "Date & Time"
is date_time, "Nike+" is nike, "blink(1)" is blink1.
"""

from __future__ import annotations

from datasets.common.errors import DataError

_NAMES = """
    500px amazon_alexa amazon_cloud_drive android_battery android_device android_location android_phone_call
    android_photos android_sms android_wear appzapp automatic beeminder best_buy bitly blink1 blogger box boxcar_2
    boxoh_package_tracking buffer camio chain craigslist dailymotion dash date_time deezer delicious digg diigo docsend
    dropbox ebay email email_digest entertainment_weekly espn evernote eyefi facebook facebook_pages feed feedly fitbit
    fiverr flickr followupcc foursquare garageio ge_appliances_cooking ge_appliances_dishwasher ge_appliances_dryer
    ge_appliances_geospring ge_appliances_refrigerator ge_appliances_washer genius giphy github gmail google_calendar
    google_contacts google_drive google_glass groupme gumroad harmony harvest homecontrol_flex hp_print
    if_notifications ifttt inoreader instagram instapaper instapush instawell ios_contacts ios_location ios_photos
    ios_reading_list ios_reminders is_it_christmas launch_center leeo life360 lifelog lifx linkedin manything medium
    misfit mojio myfox_homecontrol narro nest_cam nest_protect nest_thermostat netatmo_weather_station netatmo_welcome
    newsblur nike nimbus_note npr office_365_mail onedrive onenote onhub orbnext pebblebee people philips_hue
    phone_call pinboard pinterest pocket printhug pryv pushalot pushbullet pushover qapital qualitytime quip
    readingpack reddit rescuetime scout_alarm sina_weibo slack slice smartthings sms soundcloud space
    sports_illustrated spotify square stocks strava stripe sunlight_foundation surfline the_new_york_times time todoist
    toodledo trackif trello tumblr twitter up_by_jawbone us_independence_day vimeo weather weebly wemo_air_purifier
    wemo_coffeemaker wemo_heater wemo_humidifier wemo_insight_switch wemo_light_switch wemo_lighting wemo_maker
    wemo_motion wemo_slow_cooker wemo_switch wikipedia wink_aros wink_egg_minder wink_nimbus
    withings_blood_pressure_monitor withings_body_scale withings_home withings_pulse wordpress yo youtube
    """
SERVICES = frozenset(_NAMES.split())


def service_and_event(text: str) -> tuple[str, str]:
    """`email_digest_add_to_daily_digest` as ("email_digest", "add_to_daily_digest"): the longest service name counts.

    What follows a `-` is somebody's label for the thing that is switched (`turn_on-lights`); it is cut.
    """
    words = text.split("_")
    for n_words in range(len(words) - 1, 0, -1):
        service = "_".join(words[:n_words])
        if service in SERVICES:
            event = "_".join(words[n_words:]).partition("-")[0]
            if event:
                return service, event
    raise DataError(f"{text!r} begins with no known service name followed by an event")
